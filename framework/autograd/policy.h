// Policy and value losses as recorded ops.
#pragma once

#include "framework/autograd/variable.h"
#include "framework/kernels/policy.h"

namespace longspan {

// Targets of actions, as in kernels/policy.h. Those that a function does not read may be undefined.
struct PolicyTargets {
  Tensor action;
  Tensor before = {};
  Tensor advantage = {};
  Tensor wanted = {};
};

// x: [..., width], f32 or f64; results: with equal row count. Returns [rows].
Variable policy_losses(PolicyLossKind function,
                       const Variable& x,
                       const PolicyTargets& results,
                       double clip = 0);

}  // namespace longspan
