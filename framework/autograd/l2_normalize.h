// Rows divided by their length as a recorded op.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// x / |x| over the last axis, as kernels/l2_normalize.h has it.
Variable l2_normalize(const Variable& x);

}  // namespace longspan
