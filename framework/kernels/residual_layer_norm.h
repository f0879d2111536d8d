// Dropout, residual sum and layer normalization; one pass over memory on a GPU.
#pragma once

#include "framework/kernels/dropout.h"
#include "framework/kernels/layer_norm.h"

namespace longspan {

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
