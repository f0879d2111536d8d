// Numbers that are kept below a cap.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// cap tanh(x / cap), in x's dtype (kernels/cap.h).
Variable held_below(const Variable& x, double cap);

}  // namespace longspan
