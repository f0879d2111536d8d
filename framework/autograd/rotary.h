// Rotary positions of queries and keys.
#pragma once

#include "framework/autograd/variable.h"
#include "framework/kernels/rotary.h"

namespace longspan {

// x [batch, time, heads, dim], turned by `table` [time, 2 pairs] as Turning says. Written over x
// where nobody else holds it.
Variable apply_rotary(Variable&& x, RotaryLayout pairs, const Tensor& table);

}  // namespace longspan
