// Power norm (kernels/power_norm.h; Shen et al. 2020, "PowerNorm: Rethinking Batch Normalization in
// Transformers", algorithm 2).
#pragma once

#include <functional>
#include <optional>

#include "framework/autograd/variable.h"

namespace longspan {

// What a norm's backward pass is to take away from its gradient, [width]: given, by feature, the
// sum over the rows that count of what comes from above, times the weight and the normed row.
using PowerSlope = std::function<Tensor(const Tensor& products)>;

struct PowerRows {
  Tensor inverse;       // [width], accumulator dtype: what features are multiplied with
  Tensor counted = {};  // [rows], accumulator dtype: 1 or 0; goes with `slope`
  // Without it the inverse is a constant. Called once in the backward pass; may be collective.
  PowerSlope slope = {};
};

// x inverse weight + bias. x: [..., width]; in x's dtype or, for f32, in a narrower one.
Variable power_norm(const Variable& x,
                    const Variable& weight,
                    const Variable& bias,
                    const PowerRows& rows,
                    std::optional<DType> dtype = {});

}  // namespace longspan
