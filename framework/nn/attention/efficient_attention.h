// Efficient attention (Shen et al. 2018): a softmax over the features of each query times one over
// the positions of each feature of the keys, so that the rows of what it multiplies values by sum
// to
// 1. Not causal.
#pragma once

#include "framework/nn/attention/attention_kind.h"

namespace longspan {

class EfficientAttentionOp : public AttentionOp {
 public:
  // Throws ConfigurationError for a memory and for rules other than none.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;
};

AttentionKind efficient_kind();

}  // namespace longspan
