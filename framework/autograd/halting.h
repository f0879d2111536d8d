// The recorded operations of adaptive computation time (kernels/halting.h).
#pragma once

#include "framework/autograd/variable.h"
#include "framework/kernels/halting.h"

namespace longspan {

// What a step weighs, and the sums and costs after it: [positions], of an accumulator dtype.
// `now`: the step's decision, [positions] u8; it is kept.
struct ActStepWeights {
  Variable weights;
  Variable sums;
  Variable costs;
};
ActStepWeights act_step_weights(const Variable& logits,
                                const Variable& sums,
                                const Variable& costs,
                                const Tensor& now);

// x [..., width] joined to `before`, of x's shape and its accumulator's dtype, may be undefined:
// zeros. The result is of that dtype.
Variable accumulate_states(const Variable& x,
                           const Variable& weights,
                           const Variable& before,
                           StateAccumulation join);

// The rows of `moving` where `now` [rows] u8 does not rest, else those of `resting`, bit for bit.
Variable select_rows(const Tensor& now, const Variable& moving, const Variable& resting);

}  // namespace longspan
