// Pixel losses under mixtures of logistics as a recorded op.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"

namespace longspan {

// As kernels/logistic_mixture.h: parameters [..., mixture_parameters], values [..., channels] with
// equal pixel counts. Returns [pixels].
Variable logistic_mixture_losses(const Variable& parameters,
                                 const Tensor& values,
                                 std::int64_t mixtures);

}  // namespace longspan
