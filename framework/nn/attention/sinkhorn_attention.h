// Attention of blocks over blocks that a learned sorting puts beside them (Sparse Sinkhorn
// attention, Tay et al. 2020).
#pragma once

#include <optional>

#include "framework/autograd/sinkhorn_attention.h"
#include "framework/nn/attention/attention_kind.h"
#include "framework/options/options.h"

namespace longspan {

struct SinkhornOptions {
  std::int64_t block = 64;
  std::optional<std::int64_t> top = {};  // none: causal 2, otherwise 0
  std::int64_t iterations = 7;
  std::optional<double> temperature = {};  // none: causal 1, otherwise 0.75
  bool rotated = true;
};

// The keys model.attention.sinkhorn.*.
void declare(OptionTable& table, SinkhornOptions& options);

// Each block of tokens sees itself and what the scores between blocks, products of their means, put
// beside it: where `top` is 0 a mixture of all blocks, by scores with Gumbel noise in training that
// are made nearly doubly stochastic; otherwise so many blocks, each times the softmax at its score.
// Causal attention chooses among earlier blocks, and in half of the heads blocks begin block - 1
// tokens later, so that ends of blocks differ. A sequence is filled up to whole blocks. Choices are
// decisions of the pass.
class SinkhornAttentionOp : public AttentionOp {
 public:
  struct Options {
    SinkhornOptions sinkhorn;
    bool causal = true;
    std::int64_t heads = 0;  // of the model
    std::int64_t dim = 0;    // of a head
    double dropout = 0;      // of the probabilities
  };
  // Parameters "null_key" and "null_value" [heads, dim] of a causal one. Throws ConfigurationError
  // where context and tensor ranks do not divide the heads.
  SinkhornAttentionOp(const Scope& scope, const Options& options);
  // Throws ConfigurationError for a memory and for rules other than those it is made for.
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
