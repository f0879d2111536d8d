// Token-dependent attention spans (Sukhbaatar et al. 2019, section 2.2).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// z = limit / (1 + exp(-x - bias)). x: [..., heads], any floating dtype; bias: [heads] and z: x's
// shape, both in the accumulator dtype.
void token_spans(Cpu, double limit, const Tensor& x, const Tensor& bias, const Tensor& z);
void token_spans(Cuda, double limit, const Tensor& x, const Tensor& bias, const Tensor& z);

// dx = dz z (1 - z / limit). Overwrites dx, in x's dtype.
void token_spans_backward(Cpu, double limit, const Tensor& z, const Tensor& dz, const Tensor& dx);
void token_spans_backward(Cuda, double limit, const Tensor& z, const Tensor& dz, const Tensor& dx);

}  // namespace longspan
