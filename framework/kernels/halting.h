// Adaptive computation time (Graves 2016): number of steps of each position and the weight of each
// step. Positions are the elements of flat tensors. Sums and weights have an accumulator dtype.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Halting state of a position at a step, an element of a u8 tensor.
struct Halting {
  static constexpr std::uint8_t rests = 0;    // halted earlier, or is padding
  static constexpr std::uint8_t running = 1;  // weight of the step: its halting probability
  static constexpr std::uint8_t halts = 2;    // last step; its weight is the remainder to 1
};

// With h = sigmoid(logit). Positions at rest, or whose `before` is not `running`, rest. The others
// halt if sum + h >= threshold, or if `last` is set, and otherwise continue. logits, sums:
// [positions], same dtype; before, now: [positions] u8. Overwrites now, which may alias before.
struct HaltingDecision {
  Tensor logits;
  Tensor sums;  // of the halting probabilities of earlier steps
  Tensor before;
  Tensor now;
  double threshold = 0.99;
  bool last = false;
};
void decide_halting(Cpu, const HaltingDecision&);
void decide_halting(Cuda, const HaltingDecision&);

// Step weights, running sums and ponder costs. If a position
//   continues: weight = h,       next sum = sum + h, next cost = cost + 1;
//   halts:     weight = 1 - sum, next sum = 1,       next cost = cost + 1 + weight;
//   rests:     weight = 0,       next sum = sum,     next cost = cost.
// All tensors: [positions], same dtype. Overwrites the last three.
struct HaltingWeights {
  Tensor logits;
  Tensor sums;
  Tensor costs;
  Tensor now;
  Tensor weights;
  Tensor next_sums;
  Tensor next_costs;
};
void halting_weights(Cpu, const HaltingWeights&);
void halting_weights(Cuda, const HaltingWeights&);

// The number of steps has no gradient with respect to the logits. Overwrites dlogits and dsums;
// dcosts equals dnext_costs. Undefined upstream gradients count as zero.
struct HaltingWeightsGradient {
  Tensor logits;
  Tensor now;
  Tensor dweights;
  Tensor dnext_sums;
  Tensor dnext_costs;
  Tensor dlogits;
  Tensor dsums;
};
void halting_weights_backward(Cpu, const HaltingWeightsGradient&);
void halting_weights_backward(Cuda, const HaltingWeightsGradient&);

// Accumulation of the states of successive steps into the output.
enum class StateAccumulation : std::uint8_t {
  sum,         // before + weight * x; the result is the mean of the states (Graves 2016)
  interpolate  // (1 - weight) * before + weight * x (tensor2tensor)
};

// y = the accumulated rows. x: [positions, width] (leading axes flattened); weights: [positions].
// before: shape of x, accumulator dtype; undefined: zeros. y: as before, overwritten; may alias it.
struct JoinRows {
  Tensor x;
  Tensor weights;
  Tensor before;
  Tensor y;
  StateAccumulation join = StateAccumulation::sum;
};
void accumulate_states(Cpu, const JoinRows&);
void accumulate_states(Cuda, const JoinRows&);

// Overwrites those of dx, dweights and dbefore that are defined; dbefore may alias dy. Reads x only
// for dweights, and before only for dweights of `interpolate`.
struct JoinRowsGradient {
  Tensor x;
  Tensor weights;
  Tensor before;
  Tensor dy;
  Tensor dx;
  Tensor dweights;
  Tensor dbefore;
  StateAccumulation join = StateAccumulation::sum;
};
void join_rows_backward(Cpu, const JoinRowsGradient&);
void join_rows_backward(Cuda, const JoinRowsGradient&);

// y = the row of `resting` at positions that rest, otherwise the row of `moving`. Either may be
// undefined (zeros). moving, resting, y: [positions, width], same dtype; y may alias either.
struct ChooseRows {
  Tensor now;
  Tensor moving;
  Tensor resting;
  Tensor y;
};
void select_rows(Cpu, const ChooseRows&);
void select_rows(Cuda, const ChooseRows&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const HaltingDecision&);
void check(const HaltingWeights&);
void check(const HaltingWeightsGradient&);
void check(const JoinRows&);
void check(const JoinRowsGradient&);
void check(const ChooseRows&);

}  // namespace longspan
