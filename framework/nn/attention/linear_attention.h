// Linear attention (Katharopoulos et al. 2020): queries and keys meet by the product of their
// features elu(x) + 1, so that what came before is a state of one size.
#pragma once

#include "framework/autograd/linear_attention.h"
#include "framework/nn/attention/attention_kind.h"

namespace longspan {

// 0 at keys that are seen and -inf at padding, [batch, keys, heads]: what the mask hides of the
// rows of this rank. Undefined where it hides nothing.
Tensor hidden_keys(const ProjectedQKV& input, const AttentionMask& mask);

// Linear attention of what was projected, which reads on from Projected::state where it is set:
// its first tensor is the state, and so it is left.
Variable linear_attend(const ProjectedQKV& input,
                       const Variable& log_weight,
                       const Variable& decay,
                       LinearAttentionOptions options);

class LinearAttentionOp : public AttentionOp {
 public:
  bool supports_kv_cache() const override { return true; }
  bool has_recurrent_state() const override { return true; }
  // Throws ConfigurationError for a memory and for rules other than causal or none.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;
};

// The sentence with which `kind` refuses a memory; empty without one.
std::string memory_problem(const std::string& kind, const AttentionBuildOptions& setting);

AttentionKind linear_kind();

}  // namespace longspan
