// Samples a pixel from a mixture of logistics.
#pragma once

#include <cstdint>
#include <span>

#include "framework/core/random.h"

namespace longspan {

// Samples `values`, a pixel's channels, in order: a mixture component by its logit, then for each
// channel the level (of 256) nearest to a draw from its logistic. Earlier channels shift the mean
// (kernels/logistic_mixture.h). numbers: mixture_parameters. The temperature divides the logits and
// multiplies the scales; at 0 the means of the most likely component are used. Throws Failure for
// non-finite parameters.
void sample_logistic_mixture(std::span<const double> numbers,
                             std::int64_t mixtures,
                             double temperature,
                             const Random& place,
                             std::span<std::int64_t> values);

}  // namespace longspan
