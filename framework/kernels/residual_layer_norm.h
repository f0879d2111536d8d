// Layer normalisation of a residual with dropout; a GPU makes it in one pass over memory.
#pragma once

#include "framework/kernels/dropout.h"
#include "framework/kernels/layer_norm.h"

namespace longspan {

// norm.x = base + what `change` would write to it, with the bits of `add_dropped`, and its norm.
// change.y is norm.x. base: its elements and dtype. norm.y may be change.x.
void residual_layer_norm(Cpu, const Tensor& base, const Dropout& change, const LayerNorm& norm);
void residual_layer_norm(Cuda, const Tensor& base, const Dropout& change, const LayerNorm& norm);

// `layer_norm_backward`, whose dx is the gradient of base, and then `dropout` of that: change.x is
// norm.dx, change.y the gradient of what was dropped, which may be norm.dy.
void layer_norm_of_sum_backward(Cpu, const LayerNormGradient& norm, const Dropout& change);
void layer_norm_of_sum_backward(Cuda, const LayerNormGradient& norm, const Dropout& change);

// Throw Failure where shapes or dtypes are not as said above.
void check(const Tensor& base, const Dropout& change, const LayerNorm& norm);
void check(const LayerNormGradient& norm, const Dropout& change);

}  // namespace longspan
