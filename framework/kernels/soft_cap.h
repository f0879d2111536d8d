// Soft capping (Gemma 2, Riviere et al. 2024).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y = cap tanh(x / cap). x, y: any shape, same dtype. Overwrites y, which may alias x. cap must be
// positive.
void soft_cap(Cpu, double cap, const Tensor& x, const Tensor& y);
void soft_cap(Cuda, double cap, const Tensor& x, const Tensor& y);

// dx = dy (1 - tanh(x / cap)^2). Overwrites dx, which may alias dy.
void softcap_backward(Cpu, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx);
void softcap_backward(Cuda, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx);

}  // namespace longspan
