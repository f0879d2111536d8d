// Token-dependent attention spans.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// Returns limit / (1 + exp(-x - bias)), in the accumulator dtype. x: [..., heads]; bias: [heads],
// in that dtype.
Variable token_spans(const Variable& x, const Variable& bias, double limit);

}  // namespace longspan
