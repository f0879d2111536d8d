// L2 normalization of rows as a recorded op.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// Returns x / |x| over the last axis, as in kernels/l2_normalize.h.
Variable l2_normalize(const Variable& x);

}  // namespace longspan
