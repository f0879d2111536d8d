// Tile attention whose scores are more than products by numbers that are given: a row of them for
// each query, with a place for each position (Synthesizer, Tay et al. 2020). They are read where
// they stand.
#pragma once

#include "framework/kernels/attention/attention.h"

namespace longspan {

// The score of query i and the key at the global position k is, besides the call's own and not
// scaled by it,
//   row[i, k] + low[i, k modulo a] high[i, k / a].
// In the dtype of the query; either sum may be missing, low and high only together.
struct ExternalScores {
  Tensor row = {};   // [1, time, heads, positions]: the same for all batch rows
  Tensor low = {};   // [batch, time, heads, a]
  Tensor high = {};  // [batch, time, heads, c]; a c positions or more

  bool any() const { return row.defined() || low.defined(); }
};

// As those of attention.h, with given scores. They go with masks, padding, dropout and the terms by
// distance; not with a sorted sequence, the rules of hashing and a cap.
void attention(Cpu, const Attention&, const ExternalScores&);
void attention(Cuda, const Attention&, const ExternalScores&);

// `gradients` are added to: shaped as what they are of, accumulator dtype.
void attention_backward(Cpu,
                        const AttentionGradient&,
                        const ExternalScores& given,
                        const ExternalScores& gradients);
void attention_backward(Cuda,
                        const AttentionGradient&,
                        const ExternalScores& given,
                        const ExternalScores& gradients);

namespace tile_attention {

// They throw Failure that names the tensor, what was found and what was wanted. `dtype` is that of
// the query.
void check(const Attention& a, const ExternalScores& given);
void check(const ExternalScores& given, const ExternalScores& gradients, DType dtype);

// Operations of a forward pass besides attention_flops: a product and a sum for each allowed pair
// that has factors. A row is read and added, which counts nothing, as other terms.
double external_score_flops(const Attention& a, const ExternalScores& given);
// As count_backward of check.h, with given scores.
void count_backward(DeviceState& device, const Attention& forward, const ExternalScores& given);

}  // namespace tile_attention
}  // namespace longspan
