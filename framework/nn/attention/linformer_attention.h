// Attention over few keys and values that mix all tokens of a sequence (Linformer, Wang et al.
// 2020): time and memory linear in the length.
#pragma once

#include <optional>

#include "framework/nn/attention/attention_kind.h"
#include "framework/options/options.h"

namespace longspan {

// Who has one projection together (Wang et al. 2020, section 4): nobody; the heads of a layer; its
// keys and values too; all layers too.
enum class LinformerSharing : std::uint8_t { none, heads, keys_values, layers };

struct LinformerOptions {
  std::int64_t keys = 256;
  LinformerSharing sharing = LinformerSharing::heads;
  std::optional<std::int64_t> longest = {};  // none: the training data's
};

// The keys model.attention.linformer.*.
void declare(OptionTable& table, LinformerOptions& options);

// K' = E^T K and V' = F^T V along time, then softmax attention over the rows of K' and V'. E and F
// have a row for each position up to the longest; a shorter sequence uses the first. Keys and
// values of padding are zero before. Where context ranks share the sequence each projects its own
// tokens and the results are summed. Every query sees every token: it cannot be causal.
class LinformerAttention : public AttentionOp {
 public:
  struct Options {
    LinformerOptions linformer;
    std::int64_t longest = 0;
    std::int64_t heads = 0;  // of the model
    double dropout = 0;      // of the probabilities
  };
  // Parameters "linformer_keys" and, where they are not shared, "linformer_values", [1 or heads,
  // longest, keys]; shared by all layers they are the model's.
  LinformerAttention(const Scope& scope, const Options& options);
  // Throws ConfigurationError for a memory, for rules other than none and for a sequence that is
  // too long.
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
