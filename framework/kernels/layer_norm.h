// Layer normalization over the last axis (Ba et al. 2016) and RMSNorm (Zhang and Sennrich 2019),
// with statistics in the accumulator dtype.
#pragma once

#include "framework/core/tensor.h"
#include "framework/kernels/dropout.h"

namespace longspan {

// y = weight * (x - mean) / sqrt(biased variance + epsilon) + bias. Without centering (RMSNorm) the
// mean counts as 0, also in the variance.
//
// x, y: [rows, width] (leading axes flattened), same dtype; if x is f32, y may be bf16 or f16.
// weight, bias: [width], in x's dtype or its accumulator dtype. mean, rstd: [rows], accumulator
// dtype, overwritten, saved for the backward pass.
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

// Overwrites dx (x's dtype), or adds to it if `add` is true; dx may alias dy, which has y's dtype.
// Adds to dweight and dbias ([width], accumulator dtype). Deterministic for a given number of
// threads.
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

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const LayerNorm&);
void check(const LayerNormGradient&);

// norm.x = base + dropout(change), bitwise equal to `dropout_add`; then normalizes it. change.y is
// norm.x. base: its shape and dtype. norm.y may alias change.x.
void residual_layer_norm(Cpu, const Tensor& base, const Dropout& change, const LayerNorm& norm);
void residual_layer_norm(Cuda, const Tensor& base, const Dropout& change, const LayerNorm& norm);

// `layer_norm_backward`, whose dx is the gradient of base, followed by `dropout` on it. change.x is
// norm.dx. change.y is the gradient of dropout's input and may alias norm.dy.
void residual_layer_norm_backward(Cpu, const LayerNormGradient& norm, const Dropout& change);
void residual_layer_norm_backward(Cuda, const LayerNormGradient& norm, const Dropout& change);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const Tensor& base, const Dropout& change, const LayerNorm& norm);
void check(const LayerNormGradient& norm, const Dropout& change);

}  // namespace longspan
