// Normalisation by the root of the mean square (Zhang and Sennrich 2019).
#pragma once

#include <optional>

#include "framework/autograd/ops.h"

namespace longspan {

// weight * x / sqrt(mean of x^2 + epsilon). In x's dtype or, for f32, in a narrower one.
Variable rms_norm(const Variable& x,
                  const Variable& weight,
                  double epsilon,
                  std::optional<DType> dtype = {});

// As layer_norm_of_sum.
ResidualNorm residual_rms_norm(const Variable& a,
                               Variable&& x,
                               double rate,
                               const Random& random,
                               const ShardPlacement& placement,
                               const Variable& weight,
                               double epsilon);

}  // namespace longspan
