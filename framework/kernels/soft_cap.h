// Numbers that are kept below a cap, smoothly (Gemma 2, Riviere et al. 2024).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y = cap tanh(x / cap). x, y: any shape, same dtype; y is written and may be x. cap: more than 0.
void soft_cap(Cpu, double cap, const Tensor& x, const Tensor& y);
void soft_cap(Cuda, double cap, const Tensor& x, const Tensor& y);

// dx = dy (1 - tanh(x / cap)^2). dx is written and may be dy.
void hold_below_backward(Cpu, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx);
void hold_below_backward(Cuda, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx);

}  // namespace longspan
