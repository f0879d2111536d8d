// Attention of blocks to blocks that a learned sort aligns with them (Sparse Sinkhorn attention,
// Tay et al. 2020).
#pragma once

#include <optional>

#include "framework/autograd/attention.h"
#include "framework/nn/attention/attention_kind.h"
#include "framework/options/options.h"

namespace longspan {

struct SinkhornOptions {
  std::int64_t block = 64;
  std::optional<std::int64_t> top = {};  // none: 2 if causal, otherwise 0
  std::int64_t iterations = 7;
  std::optional<double> temperature = {};  // none: 1 if causal, otherwise 0.75
  bool rotated = true;
};

// Declares the keys model.attention.sinkhorn.*.
void declare(OptionTable& table, SinkhornOptions& options);

// Each block of tokens attends to itself and to blocks selected by block scores, products of block
// means. With top = 0 it selects a mixture of all blocks. The mixture weights are nearly doubly
// stochastic, with Gumbel noise on the scores in training. Otherwise it selects `top` blocks, each
// scaled by the softmax of its score.
//
// Causal attention selects among earlier blocks. In half of its heads blocks start block - 1 tokens
// later, so that block boundaries differ. Sequences are padded to full blocks. Selections are
// cached with ForwardContext::decide.
class SinkhornAttentionOp : public AttentionOp {
 public:
  struct Options {
    SinkhornOptions sinkhorn;
    bool causal = true;
    std::int64_t heads = 0;  // total heads of the model
    std::int64_t dim = 0;    // per head
    double dropout = 0;      // on the probabilities
  };
  // Parameters, only if causal: "null_key" and "null_value" [heads, dim]. Throws ConfigurationError
  // if context and tensor ranks do not divide the heads.
  SinkhornAttentionOp(const Scope& scope, const Options& options);
  // Throws ConfigurationError for a memory and for rules other than options.causal.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  SinkhornAttention call(const ProjectedQKV& all,
                         const AttentionContext& context,
                         std::int64_t blocks,
                         const ForwardContext& pass) const;

  Options options_;
  ShardRange heads_;
  Weight null_key_;
  Weight null_value_;
};

AttentionKind sinkhorn_kind();

}  // namespace longspan
