// Hyperbolic tangent as a recorded op.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// As kernels/tanh.h.
Variable tanh(const Variable& x);

}  // namespace longspan
