// A multiple of a variable.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// factor * x, in x's dtype.
Variable multiply_scalar(const Variable& x, double factor);

}  // namespace longspan
