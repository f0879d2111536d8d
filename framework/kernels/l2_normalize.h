// L2 normalization of rows, for the keys of shared queries and keys (Reformer, Kitaev et al. 2020).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y = x / sqrt(|x|^2 + epsilon) over the last axis. The authors' code computes x / max(|x|, 1e-12),
// which differs only where |x| is near 1e-12. x, y: [rows, width] (leading axes flattened), same
// dtype; y may alias x. inverse_length: [rows], accumulator dtype, overwritten, saved for the
// backward pass.
struct L2Normalize {
  Tensor x;
  Tensor y;
  Tensor inverse_norm;
  double epsilon = 1e-24;
};
void l2_normalize(Cpu, const L2Normalize&);
void l2_normalize(Cuda, const L2Normalize&);

// dx += (dy - y (y.dy)) * inverse_length. The saved y replaces x. dy and dx have y's dtype or its
// accumulator dtype.
struct L2NormalizeGradient {
  Tensor y;
  Tensor inverse_norm;
  Tensor dy;
  Tensor dx;
};
void l2_normalize_backward(Cpu, const L2NormalizeGradient&);
void l2_normalize_backward(Cuda, const L2NormalizeGradient&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const L2Normalize&);
void check(const L2NormalizeGradient&);

}  // namespace longspan
