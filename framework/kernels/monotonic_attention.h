// Monotonic attention (Raffel et al. 2017).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Expected alignment of a reader that moves through the source monotonically. At each position it
// stops with the probability that `attention` stops there, given that it has not stopped before
// (equation 8 of the paper):
//   p[t, s] = attention[t, s] / sum over l >= s of attention[t, l]
//   walk[t, s] = p[t, s] sum over k <= s of walk[t - 1, k] prod over k <= l < s of (1 - p[t, l])
// All of walk[-1] is at s = 0. For monotonic attention, walk equals attention. Each row sums to 1,
// because the last position always stops the reader.
//
// attention, walk: [batch, time, positions], f32 or f64. Overwrites walk, with 0 where s >=
// source[b] or t >= target[b]. source, target: lengths [batch] i64.
struct MonotonicAttention {
  Tensor attention;
  Tensor source;
  Tensor target;
  Tensor walk;
};
void monotonic_attention(Cpu, const MonotonicAttention&);
void monotonic_attention(Cuda, const MonotonicAttention&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const MonotonicAttention&);

}  // namespace longspan
