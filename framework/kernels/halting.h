// Adaptive computation time (Graves 2016): how long each position goes on, and what its steps
// weigh. Positions are the elements of flat tensors; sums and weights are of an accumulator dtype.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// What a step is for a position, an element of a u8 tensor.
struct Halting {
  static constexpr std::uint8_t rests = 0;    // it halted earlier, or is padding
  static constexpr std::uint8_t running = 1;  // the step weighs as much as its probability
  static constexpr std::uint8_t halts = 2;    // it is the last one: it weighs what is left of 1
};

// With h = sigmoid(logit): those that rest, or whose `before` says that they do not go on, rest;
// the others halt where sum + h >= threshold, or all of them with `last`, and otherwise go on.
// logits, sums: [positions], alike; before: [positions] u8; now: the same, written, may be before.
struct HaltingDecision {
  Tensor logits;
  Tensor sums;  // of the probabilities of earlier steps
  Tensor before;
  Tensor now;
  double threshold = 0.99;
  bool last = false;
};
void decide_halting(Cpu, const HaltingDecision&);
void decide_halting(Cuda, const HaltingDecision&);

// What follows of the decision. Where a position
//   goes on:  weight = h,       next sum = sum + h, next cost = cost + 1;
//   halts:    weight = 1 - sum, next sum = 1,       next cost = cost + 1 + weight;
//   rests:    weight = 0,       next sum = sum,     next cost = cost.
// All [positions] of one dtype; the last three are written.
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

// The number of steps is no function of the logits: it has no gradient. dlogits and dsums are
// written; dcosts is dnext_costs. What comes from above may be undefined: zeros.
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

// What joins one more state to what there is of the output.
enum class StateAccumulation : std::uint8_t {
  sum,         // before + weight * x: in the end the mean of the states (Graves 2016)
  interpolate  // (1 - weight) * before + weight * x (tensor2tensor)
};

// y = the rows joined; x: [positions, width] (leading axes flattened); weights: [positions];
// before: as x, of its accumulator's dtype, undefined: zeros; y: as before, written, may be it.
struct JoinRows {
  Tensor x;
  Tensor weights;
  Tensor before;
  Tensor y;
  StateAccumulation join = StateAccumulation::sum;
};
void accumulate_states(Cpu, const JoinRows&);
void accumulate_states(Cuda, const JoinRows&);

// dx, dweights and dbefore are written where they are defined; dbefore may be dy. x and before are
// read for dweights alone, before only where rows are interpolated.
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

// y = the rows of `moving` where a position does not rest, those of `resting` where it does; either
// may be undefined: zeros. moving, resting, y: [positions, width] of one dtype; y may be either.
struct ChooseRows {
  Tensor now;
  Tensor moving;
  Tensor resting;
  Tensor y;
};
void select_rows(Cpu, const ChooseRows&);
void select_rows(Cuda, const ChooseRows&);

}  // namespace longspan
