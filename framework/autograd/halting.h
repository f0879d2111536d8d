// Recorded ops of adaptive computation time (kernels/halting.h).
#pragma once

#include "framework/autograd/variable.h"
#include "framework/kernels/halting.h"

namespace longspan {

// Weights of a step, and the sums and costs after it: [positions] in an accumulator dtype. `now`:
// the decision of the step, [positions] u8, which is stored.
struct ActStepWeights {
  Variable weights;
  Variable sums;
  Variable costs;
};
ActStepWeights act_step_weights(const Variable& logits,
                                const Variable& sums,
                                const Variable& costs,
                                const Tensor& now);

// Accumulates x [..., width] into `before`, of x's shape and in its accumulator dtype. Undefined
// `before`: zeros. The result has that dtype.
Variable accumulate_states(const Variable& x,
                           const Variable& weights,
                           const Variable& before,
                           StateAccumulation join);

// Returns the rows of `moving`, but of `resting` where the decision `now` [rows] u8 is to rest,
// bitwise equal.
Variable select_rows(const Tensor& now, const Variable& moving, const Variable& resting);

}  // namespace longspan
