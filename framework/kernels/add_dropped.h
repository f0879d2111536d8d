// A residual with dropout, in one pass over memory.
#pragma once

#include "framework/kernels/dropout.h"

namespace longspan {

// y = base + what `dropout` would write to it, with the same bits as that and then `add`. base: y's
// elements and dtype; it may be y.
void add_dropped(Cpu, const Tensor& base, const Dropout&);
void add_dropped(Cuda, const Tensor& base, const Dropout&);

}  // namespace longspan
