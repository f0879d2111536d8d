// Spans of attention that depend on the token.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// limit / (1 + exp(-x - bias)), in the dtype of sums. x: [..., heads]; bias: [heads], of that
// dtype.
Variable token_spans(const Variable& x, const Variable& bias, double limit);

}  // namespace longspan
