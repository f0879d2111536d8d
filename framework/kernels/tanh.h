// Element-wise hyperbolic tangent.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y = tanh(x). x, y: any shape, same dtype. Overwrites y, which may alias x. NaN propagates.
void tanh(Cpu, const Tensor& x, const Tensor& y);
void tanh(Cuda, const Tensor& x, const Tensor& y);

// dx = dy * (1 - y^2). Overwrites dx, which may alias dy.
void tanh_backward(Cpu, const Tensor& y, const Tensor& dy, const Tensor& dx);
void tanh_backward(Cuda, const Tensor& y, const Tensor& dy, const Tensor& dx);

}  // namespace longspan
