// Matrix products.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"
#include "framework/kernels/elementwise.h"

namespace longspan {

// c = a b, with a: [m, k] (or [k, m] transposed), b: [k, n] (or [n, k] transposed), c: [m, n].
// Leading axes beyond the last are flattened into rows.
//
// a and b have the same dtype. c has that dtype or its accumulator dtype (bf16 in, f32 out). Sums
// are computed in f32 (f64 for f64).
//
// A bias [n] and an activation are applied to the product before it is written. The bias has c's
// dtype or a's accumulator dtype. If these two dtypes differ, adding the bias takes a separate pass
// on a GPU. `before`, if given, receives the pre-activations: [m, n], c's dtype.
//
// With `accumulate`, the product is added to c, without bias or activation. With `derivative`, c =
// (a b) * activation'(before), without bias. `before` is then `kept` of elementwise.h: this is the
// gradient of the pre-activations if a b is that of the activations.
//
// With a transposed, `a_sums` ([m], accumulator dtype), if given, accumulates the sums of a over k.
// This yields the bias gradient along with the weight gradient.
struct Matmul {
  Tensor a;
  Tensor b;
  Tensor c;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  Tensor bias = {};
  Activation activation = Activation::none;
  Tensor before = {};
  bool derivative = false;
  Tensor a_sums = {};
};
void matmul(Cpu, const Matmul&);
void matmul(Cuda, const Matmul&);

// c: [m, n]; each sum has k terms.
struct MatmulExtents {
  std::int64_t m;
  std::int64_t k;
  std::int64_t n;

  double flops() const { return 2.0 * static_cast<double>(m * k) * static_cast<double>(n); }
};
// Throws Failure if shapes or dtypes do not match the comments above.
MatmulExtents check(const Matmul&);

// Whether the processor has native bf16 products. Otherwise they are computed in f32 from converted
// copies: equal results, but slower.
bool bf16_is_native();

}  // namespace longspan
