// Rows divided by their length: the keys of shared queries and keys (Reformer, Kitaev et al. 2020).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y = x / sqrt(|x|^2 + epsilon) over the last axis; with so small an epsilon x / max(|x|, 1e-12) as
// in the authors' code, but where |x| is near 1e-12. x, y: [rows, width] (leading axes flattened),
// of one dtype; y may be x. inverse_length: [rows], accumulator dtype, written, kept for the
// backward pass.
struct L2Normalize {
  Tensor x;
  Tensor y;
  Tensor inverse_norm;
  double epsilon = 1e-24;
};
void l2_normalize(Cpu, const L2Normalize&);
void l2_normalize(Cuda, const L2Normalize&);

// dx += (dy - y (y.dy)) * inverse_length: what y kept says all about x. dy and dx of y's dtype or
// its accumulator's.
struct UnitRowsGradient {
  Tensor y;
  Tensor inverse_norm;
  Tensor dy;
  Tensor dx;
};
void unit_rows_backward(Cpu, const UnitRowsGradient&);
void unit_rows_backward(Cuda, const UnitRowsGradient&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const L2Normalize&);
void check(const UnitRowsGradient&);

}  // namespace longspan
