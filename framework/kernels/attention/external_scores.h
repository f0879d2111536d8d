// Tiled attention with additional given scores: one row for each query, with an entry for each
// position (Synthesizer, Tay et al. 2020). Kernels read the rows in place.
#pragma once

#include "framework/kernels/attention/attention.h"

namespace longspan {

// Added to the scaled score of query i and the key at the global position k:
//   row[i, k] + low[i, k modulo a] high[i, k / a].
// In the dtype of the query. Either summand may be undefined; low and high are defined together.
struct ExternalScores {
  Tensor row = {};   // [1, time, heads, positions]: shared by all batch rows
  Tensor low = {};   // [batch, time, heads, a]
  Tensor high = {};  // [batch, time, heads, c]; a * c >= positions

  bool any() const { return row.defined() || low.defined(); }
};

// attention of attention.h with given scores. Supports masks, padding, dropout and
// relative-position terms, but not sorted sequences, hash terms or a cap.
void attention(Cpu, const Attention&, const ExternalScores&);
void attention(Cuda, const Attention&, const ExternalScores&);

// Adds to `gradients`: same shapes as `given`, accumulator dtype.
void attention_backward(Cpu,
                        const AttentionGradient&,
                        const ExternalScores& given,
                        const ExternalScores& gradients);
void attention_backward(Cuda,
                        const AttentionGradient&,
                        const ExternalScores& given,
                        const ExternalScores& gradients);

namespace tile_attention {

// Throw Failure that names the tensor, the expected shape or dtype, and the one found. `dtype` is
// that of the query.
void check(const Attention& a, const ExternalScores& given);
void check(const ExternalScores& given, const ExternalScores& gradients, DType dtype);

// Returns the forward operations in addition to attention_flops: a product and a sum for each
// allowed pair if there are factors. Adding a row counts as 0, as for other terms.
double external_score_flops(const Attention& a, const ExternalScores& given);
// count_backward of check.h with given scores.
void count_backward(DeviceState& device, const Attention& forward, const ExternalScores& given);

}  // namespace tile_attention
}  // namespace longspan
