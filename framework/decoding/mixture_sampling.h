// A pixel drawn from a mixture of logistics.
#pragma once

#include <cstdint>
#include <span>

#include "framework/core/random.h"

namespace longspan {

// Draws `values`, a pixel's channels, from left to right: a mixture by its logit, then of each
// channel the nearest of the 256 values to a number drawn from its logistic,
// whose mean earlier channels move as kernels/logistic_mixture.h says. numbers: mixture_parameters.
// The temperature divides the logits and multiplies the scales; at 0 the likeliest mixture's means
// are taken. Throws Failure for a number that is not finite.
void sample_logistic_mixture(std::span<const double> numbers,
                             std::int64_t mixtures,
                             double temperature,
                             const Random& place,
                             std::span<std::int64_t> values);

}  // namespace longspan
