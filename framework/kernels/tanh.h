// The hyperbolic tangent of every element.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y = tanh(x). x, y: any shape, one dtype; y is written and may be x. NaN goes through.
void tanh(Cpu, const Tensor& x, const Tensor& y);
void tanh(Cuda, const Tensor& x, const Tensor& y);

// dx = dy * (1 - y^2). dx is written and may be dy.
void hyperbolic_tangent_backward(Cpu, const Tensor& y, const Tensor& dy, const Tensor& dx);
void hyperbolic_tangent_backward(Cuda, const Tensor& y, const Tensor& dy, const Tensor& dx);

}  // namespace longspan
