// Normalization with kernels of its own.
#pragma once

#include <functional>
#include <optional>

#include "framework/autograd/ops.h"
#include "framework/autograd/variable.h"

namespace longspan {

// RMS normalization (Zhang and Sennrich 2019).

// Returns weight * x / sqrt(mean of x^2 + epsilon), in x's dtype or, for f32 x, in a narrower one.
Variable rms_norm(const Variable& x,
                  const Variable& weight,
                  double epsilon,
                  std::optional<DType> dtype = {});

// Returns x / sqrt(mean of x^2 + epsilon), without a gain.
Variable rms_normalize(const Variable& x, double epsilon);

// As residual_layer_norm.
ResidualNorm residual_rms_norm(const Variable& a,
                               Variable&& x,
                               double rate,
                               const Random& random,
                               const ShardPlacement& placement,
                               const Variable& weight,
                               double epsilon);

// Power norm (kernels/power_norm.h; Shen et al. 2020, "PowerNorm: Rethinking Batch Normalization in
// Transformers", algorithm 2).

// Returns the correction that a norm's backward pass subtracts from its gradient, [width].
// Argument, by feature: sum over counted rows of upstream gradient times weight times normalized
// row.
using PowerSlope = std::function<Tensor(const Tensor& products)>;

struct PowerRows {
  Tensor inverse;       // [width], accumulator dtype: factor of the features
  Tensor counted = {};  // [rows], accumulator dtype: 1 or 0; required by `slope`
  // Undefined: the inverse is a constant. Called once in the backward pass; may be collective.
  PowerSlope slope = {};
};

// Returns x inverse weight + bias, in x's dtype or, for f32 x, in a narrower one. x: [..., width].
Variable power_norm(const Variable& x,
                    const Variable& weight,
                    const Variable& bias,
                    const PowerRows& rows,
                    std::optional<DType> dtype = {});

}  // namespace longspan
