// Materialized attention probabilities of some heads of a decoder's cross-attention. Tiled
// attention never materializes them. Copying, coverage and guided alignment need them.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Computes, for heads [begin, end) of a query [batch, time, heads, dim] and a key [batch,
// positions, heads, dim] of one floating dtype:
//   each[b, h, t, s] = softmax over s < lengths[b] of scale query[b, t, h] . key[b, s, h]
//   mean[b, t, s] = weight * sum over these heads of each
// Both are 0 at s >= lengths[b]. lengths: [batch] i64; if undefined, all positions are visible.
// each: [batch, end - begin, time, positions] and mean: [batch, time, positions], accumulator
// dtype, overwritten.
struct DenseAttentionWeights {
  Tensor query;
  Tensor key;
  Tensor lengths;
  std::int64_t begin = 0;
  std::int64_t end = 1;
  double scale = 1;
  double weight = 1;
  Tensor each;
  Tensor mean;
};
void dense_attention_weights(Cpu, const DenseAttentionWeights&);
void dense_attention_weights(Cuda, const DenseAttentionWeights&);

// `forward` holds the arguments of the forward call; `mean` is not needed. dmean: [batch, time,
// positions]. dscores is scratch, shaped as `each`. Overwrites dquery and dkey, shaped as query and
// key, with zeros for other heads. All in the accumulator dtype.
struct HeadAttentionGradient {
  DenseAttentionWeights forward;
  Tensor dmean;
  Tensor dscores;
  Tensor dquery;
  Tensor dkey;
};
void head_attention_backward(Cpu, const HeadAttentionGradient&);
void head_attention_backward(Cuda, const HeadAttentionGradient&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const DenseAttentionWeights&);
void check(const HeadAttentionGradient&);

}  // namespace longspan
