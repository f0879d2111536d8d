// Attention-free mixing on the CPU by products of tiles, for many near keys.
//
// In a tile of queries and keys, e^(k + w) = e^(k - m) e^(w - n) e^(m + n), with the largest key m
// of each channel and the largest bias n of each query: two matrix products and few exponentials
// in place of an exponential for each pair and channel. A tile whose keys and biases vary so much
// that the factors of its largest terms could underflow is summed pair by pair.
#pragma once

#include "framework/kernels/attention/attention_free.h"

namespace longspan {

// Whether tiles are faster than pairs.
bool uses_tiles(const AttentionFree&);
// Write out and log_sum; dkey and dvalue; dbias, without documents. far: sums over far keys, or far
// queries, that the kernels of attention_free.h compute, [batch, rows, 3, channels]; undefined
// without.
void mix_tiles(const AttentionFree&, const Tensor& far);
void key_gradients_by_tiles(const AttentionFreeGradient&, const Tensor& far);
void bias_gradient_by_tiles(const AttentionFreeGradient&);

}  // namespace longspan
