// Element-wise clamping.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Clamps every element of x (f32 or f64) to [least, most] in place. NaN stays NaN.
void clamp(Cpu, const Tensor& x, double least, double most);
void clamp(Cuda, const Tensor& x, double least, double most);

}  // namespace longspan
