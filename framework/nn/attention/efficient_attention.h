// Efficient attention (Shen et al. 2018): softmax of each query over its features times softmax of
// each key feature over positions. Rows of the implied attention matrix sum to 1. Not causal.
#pragma once

#include "framework/nn/attention/attention_kind.h"

namespace longspan {

class EfficientAttentionOp : public AttentionOp {
 public:
  // Throws ConfigurationError for a memory and for any mask rules.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;
};

AttentionKind efficient_kind();

}  // namespace longspan
