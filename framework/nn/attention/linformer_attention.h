// Attention over few keys and values that mix all tokens of a sequence (Linformer, Wang et al.
// 2020). Time and memory are linear in the length.
#pragma once

#include <optional>

#include "framework/nn/attention/attention_kind.h"
#include "framework/options/options.h"

namespace longspan {

// Sharing of a projection (Wang et al. 2020, section 4): none; heads of a layer; also keys and
// values; also all layers.
enum class LinformerSharing : std::uint8_t { none, heads, keys_values, layers };

struct LinformerOptions {
  std::int64_t keys = 256;
  LinformerSharing sharing = LinformerSharing::heads;
  std::optional<std::int64_t> longest = {};  // none: that of the training data
};

// Declares the keys model.attention.linformer.*.
void declare(OptionTable& table, LinformerOptions& options);

// K' = E^T K and V' = F^T V along time, then softmax attention over the rows of K' and V'. E and F
// have a row for each position up to the longest. A shorter sequence uses the first ones. Keys and
// values of padding are zeroed first. If context ranks share the sequence, each projects its own
// tokens and the results are summed. Every query attends to every token, so it cannot be causal.
class LinformerAttention : public AttentionOp {
 public:
  struct Options {
    LinformerOptions linformer;
    std::int64_t longest = 0;
    std::int64_t heads = 0;  // total heads of the model
    double dropout = 0;      // on the probabilities
  };
  // Parameters: "linformer_keys" and, unless shared, "linformer_values", [1 or heads, longest,
  // keys]. If all layers share them, they belong to the model.
  LinformerAttention(const Scope& scope, const Options& options);
  // Throws ConfigurationError for a memory, for any mask rules and for a sequence that is too long.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  Variable project(const Variable& x, const Weight& weight, const ProjectedQKV& input) const;

  std::int64_t longest_;
  double dropout_;
  Weight keys_;
  Weight values_;
};

AttentionKind linformer_kind();

}  // namespace longspan
