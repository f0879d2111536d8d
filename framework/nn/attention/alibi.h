// Attention with linear biases (ALiBi, Press et al. 2022): a score loses slope * |p - k|, with a
// slope for each head that is not learned.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/nn/parameters.h"

namespace longspan {

// The slopes of all heads of a model, from the steepest on: 2^(-8 i / heads) for i = 1 .. heads
// where that is a power of two. Otherwise those of the power of two below it, and then every second
// one of twice as many heads, as in the authors' code.
std::vector<double> alibi_slopes(std::int64_t heads);

// Of this tensor rank's heads, [heads], in the dtype of sums, on the device.
Tensor alibi_slopes(const Scope& scope, std::int64_t heads);

}  // namespace longspan
