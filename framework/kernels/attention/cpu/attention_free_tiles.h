// Attention-free mixing on the CPU by products of tiles, for many near keys.
//
// In a tile of queries and keys, e^(k + w) = e^(k - m) e^(w - n) e^(m + n), with the largest key m
// of each channel and the largest bias n of each query: two matrix products and few exponentials
// in place of an exponential for each pair and channel. A tile whose keys and biases vary so much
// that the factors of its largest terms could underflow is summed pair by pair. A key or value that
// is NaN or infinite makes the results of all queries of a tile NaN, also of those that do not see
// it.
#pragma once

#include "framework/kernels/attention/attention_free.h"

namespace longspan {

// Whether tiles are faster than pairs.
bool uses_tiles(const AttentionFree&);
// Writes out and log_sum. far: the sums over far keys, [batch, queries, 3, channels]; undefined if
// no pair is far.
void mix_by_tiles(const AttentionFree&, const Tensor& far);
// Writes dkey and dvalue. far: the sums over far queries, [batch, keys, 3, channels].
void key_gradients_by_tiles(const AttentionFreeGradient&, const Tensor& far);
// Writes dbias. Requires that max_lookback is undefined.
void bias_gradient_by_tiles(const AttentionFreeGradient&);

}  // namespace longspan
