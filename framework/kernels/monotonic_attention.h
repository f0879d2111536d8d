// Attention that only moves on (Raffel et al. 2017).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Where a reader of a source stands who never goes back, and stops at each place with the
// probability that `attention` stops there, given that it did not stop before:
//   p[t, s] = attention[t, s] / sum over l >= s of attention[t, l]
//   walk[t, s] = p[t, s] sum over k <= s of walk[t - 1, k] prod over k <= l < s of (1 - p[t, l])
// (their equation 8), with all of walk[-1] at s = 0. It is attention itself where that never goes
// back; each row sums to 1, as the last place stops whoever comes there.
//
// attention, walk: [batch, time, positions], f32 or f64; walk is written, 0 where s >= source[b] or
// t >= target[b], the lengths [batch] i64.
struct MonotonicAttention {
  Tensor attention;
  Tensor source;
  Tensor target;
  Tensor walk;
};
void monotonic_attention(Cpu, const MonotonicAttention&);
void monotonic_attention(Cuda, const MonotonicAttention&);

// Throws Failure where shapes or dtypes are not as said above.
void check(const MonotonicAttention&);

}  // namespace longspan
