// Layer types of the attention-free Transformer (AFT, Zhai et al. 2021), in which each channel has
// its own weights of keys.
#pragma once

#include <vector>

#include "framework/nn/attention/attention_kind.h"

namespace longspan {

// y_t = sigmoid(q_t) sum e^(k_t' + w_tt') v_t' / sum e^(k_t' + w_tt'), over all or all earlier
// positions t'. Documents do not mix, and their positions count from their start.
class AttentionFreeOp : public AttentionOp {
 public:
  struct Options {
    std::string kind;          // for messages
    std::int64_t longest = 0;  // positions with biases; 0: aft_simple, without biases
    std::int64_t window = 0;   // biases of keys less than so many positions away
    bool banded = false;       // the biases of other keys do not exist
    bool causal = true;
  };
  // Parameter, unless aft_simple: "position_bias" [longest, columns], as AttentionFree::bias.
  AttentionFreeOp(const Scope& scope, const Options& options);

  bool supports_kv_cache() const override { return true; }
  // The sums of aft_simple over all earlier positions, 3 numbers of each channel.
  bool has_recurrent_state() const override { return bias_ == nullptr; }
  bool supports_document_mask() const override { return true; }
  bool rotates() const override { return false; }
  bool mixes_queries() const override { return false; }
  // Throws ConfigurationError for a memory, for other masks than that of the model, and for a
  // sequence that is too long.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  Options options_;
  Weight bias_;
};

// aft_full, aft_local and aft_simple.
std::vector<AttentionKind> attention_free_kinds();

}  // namespace longspan
