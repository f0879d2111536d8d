// Matrix products.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"
#include "framework/kernels/activation.h"

namespace longspan {

// c = a b, with a: [m, k] (or [k, m] transposed), b: [k, n] (or [n, k] transposed), c: [m, n].
// Leading axes of a, b and c beyond the last are flattened into rows.
// a and b have the same dtype; c has that dtype or its accumulator's (bf16 in, f32 out). Sums are
// kept in f32 (f64 for f64). A bias [n], of c's dtype or a's accumulator (which costs a GPU a pass
// of its own where it is another), and an activation are applied to the product before it is
// written; what came before the activation is written to `before`, where that is given: [m, n], c's
// dtype. With `accumulate` the product is added to c (then there is neither bias nor activation).
// With `derivative`, c = (a b) * activation'(before) instead, `before` as `kept` in activation.h:
// the gradient of what came before, where a b is that of what came after. Without bias.
// With a transposed, a's sums over k are added to `a_sums`, [m] of the accumulator dtype, where
// that is given: the gradient of a bias beside that of the weight it was added with.
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

// c: [m, n], k terms a sum.
struct MatmulExtents {
  std::int64_t m;
  std::int64_t k;
  std::int64_t n;

  double flops() const { return 2.0 * static_cast<double>(m * k) * static_cast<double>(n); }
};
// Throws Failure where shapes or dtypes are not as said above.
MatmulExtents check(const Matmul&);

// Whether this processor multiplies bf16 itself. Elsewhere bf16 products are made in f32 from
// converted copies: the same numbers, more slowly.
bool bf16_is_native();

}  // namespace longspan
