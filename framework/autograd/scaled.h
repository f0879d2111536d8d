// Product of a variable and a constant.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// Returns factor * x, in x's dtype.
Variable multiply_scalar(const Variable& x, double factor);

}  // namespace longspan
