// The probabilities of some heads of attention, written out: what a decoder's position looks at of
// a source. Tile attention never holds them; this is for what is made of them itself (copying,
// coverage, guided alignment).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Of heads [begin, end) of a query [batch, time, heads, dim] and a key [batch, positions, heads,
// dim], both of one floating dtype:
//   each[b, h, t, s] = softmax over s < lengths[b] of scale query[b, t, h] . key[b, s, h]
//   mean[b, t, s] = weight * sum over these heads of each
// 0 at s >= lengths[b]; lengths: [batch] i64, undefined where all positions are seen. each: [batch,
// end - begin, time, positions] and mean: [batch, time, positions], accumulator dtype, written.
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

// `forward` as it was called, without `mean`. dmean: [batch, time, positions]. dscores is scratch
// of each's shape; dquery and dkey, of the shapes of query and key, are written, zeros for other
// heads. All in the accumulator dtype.
struct HeadAttentionGradient {
  DenseAttentionWeights forward;
  Tensor dmean;
  Tensor dscores;
  Tensor dquery;
  Tensor dkey;
};
void head_attention_backward(Cpu, const HeadAttentionGradient&);
void head_attention_backward(Cuda, const HeadAttentionGradient&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const DenseAttentionWeights&);
void check(const HeadAttentionGradient&);

}  // namespace longspan
