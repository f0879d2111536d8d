// Recorded gates that replace a residual sum.
#pragma once

#include "framework/autograd/variable.h"
#include "framework/kernels/gate.h"

namespace longspan {

// As kernels/gate.h. x, change (undefined if the function has none) and logits: [..., width] in one
// dtype; bias: [width], a parameter, undefined if the function has none.
Variable gate(GateFunction function,
              const Variable& x,
              const Variable& change,
              const Variable& logits,
              const Variable& bias);

}  // namespace longspan
