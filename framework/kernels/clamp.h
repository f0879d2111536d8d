// Elements held to a range.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Every element of x, f32 or f64, becomes the nearest number of [least, most]. NaN stays NaN.
void clamp(Cpu, const Tensor& x, double least, double most);
void clamp(Cuda, const Tensor& x, double least, double most);

}  // namespace longspan
