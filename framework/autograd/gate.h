// Gates in place of a residual sum, recorded.
#pragma once

#include "framework/autograd/variable.h"
#include "framework/kernels/gate.h"

namespace longspan {

// As kernels/gate.h. x, change (undefined where the function has none) and logits: [..., width], of
// one dtype; bias: [width], a parameter, undefined where the function has none.
Variable gate(GateFunction function,
              const Variable& x,
              const Variable& change,
              const Variable& logits,
              const Variable& bias);

}  // namespace longspan
