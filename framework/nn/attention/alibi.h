// Attention with linear biases (ALiBi, Press et al. 2022): subtracts slope * |p - k| from a score,
// with a fixed slope per head.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/nn/parameters.h"

namespace longspan {

// Returns the slopes of all heads of a model, steepest first: 2^(-8 i / heads), i = 1 ... heads,
// for a power of two. Otherwise the slopes for the power of two below it, then every second slope
// for twice as many heads, as in the authors' code.
std::vector<double> alibi_slopes(std::int64_t heads);

// Returns the slopes of this tensor rank's heads, [heads], in the accumulator dtype, on the device.
Tensor alibi_slopes(const Scope& scope, std::int64_t heads);

}  // namespace longspan
