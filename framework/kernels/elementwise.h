// Element-wise operations, copies of time blocks, and reductions.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

// out = a + b. Same number of elements and dtype. out may alias a or b.
void add(Cpu, const Tensor& a, const Tensor& b, const Tensor& out);
void add(Cuda, const Tensor& a, const Tensor& b, const Tensor& out);

// y += factor * x. x may have another floating dtype; the sum is computed in the wider accumulator.
void accumulate(Cpu, double factor, const Tensor& x, const Tensor& y);
void accumulate(Cuda, double factor, const Tensor& x, const Tensor& y);

// y = factor * x. x and y may have different floating dtypes, so this is also the cast.
void scale(Cpu, double factor, const Tensor& x, const Tensor& y);
void scale(Cuda, double factor, const Tensor& x, const Tensor& y);

// y = factor * one in every element; `one` has one element. Their floating dtypes may differ.
void fill(Cpu, double factor, const Tensor& one, const Tensor& y);
void fill(Cuda, double factor, const Tensor& one, const Tensor& y);

// y[o, t, :] = factor * x[o, t, :] + table[t, :]. x, y: [outer, time, width]; table: [time, width],
// in x's dtype or its accumulator dtype. y may alias x.
void scale_and_add_rows(Cpu, double factor, const Tensor& x, const Tensor& table, const Tensor& y);
void scale_and_add_rows(Cuda, double factor, const Tensor& x, const Tensor& table, const Tensor& y);

// Copies or adds a block of `count` middle rows: to[o, to_begin + t, :] = from[o, from_begin + t,
// :]. from: [outer, n, width], to: [outer, m, width], same dtype.
void copy_rows(Cpu,
               const Tensor& from,
               std::int64_t from_begin,
               const Tensor& to,
               std::int64_t to_begin,
               std::int64_t count,
               bool add);
void copy_rows(Cuda,
               const Tensor& from,
               std::int64_t from_begin,
               const Tensor& to,
               std::int64_t to_begin,
               std::int64_t count,
               bool add);

// out[c] += sum over rows of x[r, c]. x: [rows, width]; out: [width], in x's dtype or its
// accumulator dtype. Deterministic for a given number of threads.
void add_column_sums(Cpu, const Tensor& x, const Tensor& out);
void add_column_sums(Cuda, const Tensor& x, const Tensor& out);

// total = factor times the sum of the elements, and the sum of squares over several tensors. total:
// one f32 or f64 element; sums are computed in double. Deterministic for any number of threads
// (fixed blocks). NaN and infinity propagate.
void sum(Cpu, const Tensor& x, double factor, const Tensor& total);
void sum(Cuda, const Tensor& x, double factor, const Tensor& total);
void sum_of_squares(Cpu, const std::vector<Tensor>& tensors, const Tensor& total);
void sum_of_squares(Cuda, const std::vector<Tensor>& tensors, const Tensor& total);

// Soft capping (Gemma 2, Riviere et al. 2024).

// y = cap tanh(x / cap). x, y: any shape, same dtype. Overwrites y, which may alias x. cap must be
// positive.
void soft_cap(Cpu, double cap, const Tensor& x, const Tensor& y);
void soft_cap(Cuda, double cap, const Tensor& x, const Tensor& y);

// dx = dy (1 - tanh(x / cap)^2). Overwrites dx, which may alias dy.
void softcap_backward(Cpu, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx);
void softcap_backward(Cuda, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx);

// Clamps every element of x (f32 or f64) to [least, most] in place. NaN stays NaN.
void clamp(Cpu, const Tensor& x, double least, double most);
void clamp(Cuda, const Tensor& x, double least, double most);

// y = tanh(x). x, y: any shape, same dtype. Overwrites y, which may alias x. NaN propagates.
void tanh(Cpu, const Tensor& x, const Tensor& y);
void tanh(Cuda, const Tensor& x, const Tensor& y);

// dx = dy * (1 - y^2). Overwrites dx, which may alias dy.
void tanh_backward(Cpu, const Tensor& y, const Tensor& dy, const Tensor& dx);
void tanh_backward(Cuda, const Tensor& y, const Tensor& dy, const Tensor& dx);

// Activation functions of feed-forward layers.
enum class Activation : std::uint8_t {
  none,
  relu,
  gelu,       // x Phi(x), the exact form with erf
  gelu_tanh,  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  silu,       // x / (1 + exp(-x)) (Elfwing et al. 2018)
  relu2       // max(x, 0)^2 (So et al. 2021)
};

// y = activation(x). x, y: any shape, same dtype. Overwrites y, which may alias x.
void activate(Cpu, Activation, const Tensor& x, const Tensor& y);
void activate(Cuda, Activation, const Tensor& x, const Tensor& y);

// dx = dy * activation'(x). `kept` is x, or for relu either x or y (both have the same sign).
// Overwrites dx, which may alias dy.
void activate_backward(Cpu, Activation, const Tensor& kept, const Tensor& dy, const Tensor& dx);
void activate_backward(Cuda, Activation, const Tensor& kept, const Tensor& dy, const Tensor& dx);

// Hidden layer of gated feed-forward layers (Dauphin et al. 2017; Shazeer 2020).

// y = activation(before) * factor, element-wise. Same shape and dtype. Overwrites y.
struct GatedHidden {
  Activation activation = Activation::silu;
  Tensor before;
  Tensor factor;
  Tensor y;
};
void gated_hidden(Cpu, const GatedHidden&);
void gated_hidden(Cuda, const GatedHidden&);

// dbefore = dy * factor * activation'(before), dfactor = dy * activation(before). Overwrites both.
// Each may alias its input, and one of them may alias dy.
struct GatedHiddenGradient {
  Activation activation = Activation::silu;
  Tensor before;
  Tensor factor;
  Tensor dy;
  Tensor dbefore;
  Tensor dfactor;
};
void gated_hidden_backward(Cpu, const GatedHiddenGradient&);
void gated_hidden_backward(Cuda, const GatedHiddenGradient&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check_copy_rows(const Tensor& from,
                     std::int64_t from_begin,
                     const Tensor& to,
                     std::int64_t to_begin,
                     std::int64_t count);
void check_scale_and_add_rows(const Tensor& x, const Tensor& table, const Tensor& y);
void check_add_column_sums(const Tensor& x, const Tensor& out);
void check_total(const Tensor& total);

}  // namespace longspan
