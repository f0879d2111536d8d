// A residual with dropout, in one pass over memory.
#pragma once

#include "framework/kernels/dropout.h"

namespace longspan {

// y = base + what `dropout` would write to it, with the same bits as that and then `add`. base: y's
// elements and dtype; it may be y.
void dropout_add(Cpu, const Tensor& base, const Dropout&);
void dropout_add(Cuda, const Tensor& base, const Dropout&);

}  // namespace longspan
