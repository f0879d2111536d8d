// Soft cap of values.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// Returns cap tanh(x / cap), in x's dtype (kernels/soft_cap.h).
Variable soft_cap(const Variable& x, double cap);

}  // namespace longspan
