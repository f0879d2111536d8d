// Linear attention (Katharopoulos et al. 2020): the kernel is the product of features elu(x) + 1,
// so that the prefix is a state of constant size.
#pragma once

#include "framework/autograd/linear_attention.h"
#include "framework/nn/attention/attention_kind.h"

namespace longspan {

// Returns [batch, keys, heads] for the rows of this rank: 0 at visible keys and -inf at padding.
// Undefined if the mask hides nothing.
Tensor hidden_keys(const ProjectedQKV& input, const AttentionMask& mask);

// Linear attention of the projections. Continues from ProjectedQKV::state if set: its first tensor
// is the state, which is updated.
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

// Returns the message with which `kind` rejects a memory. Empty without a memory.
std::string validate_memory(const std::string& kind, const AttentionBuildOptions& setting);

AttentionKind linear_kind();

}  // namespace longspan
