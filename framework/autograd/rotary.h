// Rotary position embedding of queries and keys.
#pragma once

#include "framework/autograd/variable.h"
#include "framework/kernels/rotary.h"

namespace longspan {

// Rotates x [batch, time, heads, dim] by `table` [time, 2 pairs], as in kernels/rotary.h. Writes in
// place if x has no other owner.
Variable apply_rotary(Variable&& x, RotaryLayout pairs, const Tensor& table);

}  // namespace longspan
