// Scores of policies and values as recorded ops.
#pragma once

#include "framework/autograd/variable.h"
#include "framework/kernels/policy.h"

namespace longspan {

// What actions came to, as kernels/policy.h says; what a function does not read may be undefined.
struct PolicyTargets {
  Tensor action;
  Tensor before = {};
  Tensor advantage = {};
  Tensor wanted = {};
};

// x: [..., width], of f32 or f64; results: of as many rows. Result: [rows].
Variable policy_losses(PolicyLossKind function,
                       const Variable& x,
                       const PolicyTargets& results,
                       double clip = 0);

}  // namespace longspan
