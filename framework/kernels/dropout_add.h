// Dropout and residual addition in one pass over memory.
#pragma once

#include "framework/kernels/dropout.h"

namespace longspan {

// y = base + dropout(x), bitwise equal to `dropout` followed by `add`. base: shape and dtype of y,
// which it may alias.
void dropout_add(Cpu, const Tensor& base, const Dropout&);
void dropout_add(Cuda, const Tensor& base, const Dropout&);

}  // namespace longspan
