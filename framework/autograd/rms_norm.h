// RMS normalization (Zhang and Sennrich 2019).
#pragma once

#include <optional>

#include "framework/autograd/ops.h"

namespace longspan {

// Returns weight * x / sqrt(mean of x^2 + epsilon), in x's dtype or, for f32 x, in a narrower one.
Variable rms_norm(const Variable& x,
                  const Variable& weight,
                  double epsilon,
                  std::optional<DType> dtype = {});

// As residual_layer_norm.
ResidualNorm residual_rms_norm(const Variable& a,
                               Variable&& x,
                               double rate,
                               const Random& random,
                               const ShardPlacement& placement,
                               const Variable& weight,
                               double epsilon);

}  // namespace longspan
