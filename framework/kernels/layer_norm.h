// Layer normalisation over the last axis (Ba et al. 2016), or by the root of the mean square (Zhang
// and Sennrich 2019), statistics in the accumulator dtype.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y = weight * (x - mean) / sqrt(biased variance + epsilon) + bias. Not centred, the mean counts as
// 0, also in the variance.
// x, y: [rows, width] (leading axes flattened), of one dtype; y of f32 may be bf16 or f16. weight,
// bias: [width], of x's dtype or its accumulator's. mean, rstd: [rows] in the
// accumulator dtype, written, kept for the backward pass.
struct LayerNorm {
  Tensor x;
  Tensor weight;
  Tensor bias;
  Tensor y;
  Tensor mean;
  Tensor rstd;
  double epsilon = 1e-5;
  bool centered = true;
};
void layer_norm(Cpu, const LayerNorm&);
void layer_norm(Cuda, const LayerNorm&);

// dx, of x's dtype, is written, or added to where `add` is true; it may be dy, which is of y's
// dtype. dweight and dbias (accumulator dtype, [width]) are added to. Deterministic for a given
// number of threads.
struct LayerNormGradient {
  Tensor x;
  Tensor weight;
  Tensor mean;
  Tensor rstd;
  Tensor dy;
  Tensor dx;
  Tensor dweight;
  Tensor dbias;
  bool add = false;
  bool centered = true;
};
void layer_norm_backward(Cpu, const LayerNormGradient&);
void layer_norm_backward(Cuda, const LayerNormGradient&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const LayerNorm&);
void check(const LayerNormGradient&);

}  // namespace longspan
