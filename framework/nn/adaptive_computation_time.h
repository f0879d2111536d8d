// Applies a block to each position a learned number of times: adaptive computation time (ACT,
// Graves 2016) over depth (Universal Transformer, Dehghani et al. 2019).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "framework/nn/layers.h"

namespace longspan {

// Defaults follow Graves. Each alternative value reproduces a variant of tensor2tensor.
struct ActOptions {
  // State from which the halting probability of a step is computed: the output or the input of the
  // block.
  enum class Reads : std::uint8_t { after, before };
  // mean: sum of the states, each weighted by its probability. interpolated: running interpolation
  // of the output with each new state. last: the final state.
  enum class Output : std::uint8_t { mean, interpolated, last };

  std::int64_t steps = 8;  // maximum number of steps
  double slack = 0.01;     // a position halts once its probabilities sum to at least 1 - slack
  double bias = 1;         // initial bias of the halting logit
  Reads reads = Reads::after;
  Output output = Output::mean;
  bool freeze = true;            // keep the state of a halted position unchanged
  bool remainder_at_end = true;  // the last allowed step receives the remainder as its weight
  // With `freeze`, passes the block the rows that have not halted, so that it can skip the others.
  bool compaction = true;
};

// Decisions of one step; each tensor is [positions].
struct ActStep {
  Tensor logits;
  Tensor weights;
  Tensor decisions;  // u8, kernels/halting.h
};

struct ActResult {
  Variable states;  // [batch, time, width], as x
  // [batch * time] in an accumulator dtype: number of steps of each position plus its remainder.
  // Zero at padding.
  Variable costs;
  std::vector<ActStep> steps;  // one per step until all positions have halted
  std::int64_t taken = 0;      // total steps of this rank's positions
  // Only outside training, otherwise empty: steps of each position [batch * time], zero at padding,
  // and the layout of these positions.
  std::vector<std::int64_t> each = {};
  SequenceShard time = {};
};

// Callbacks that run the repeated block.
struct RecurrentBlock {
  // Returns the block input of step 0, 1, ... for the given states.
  std::function<Variable(const Variable& states, std::int64_t step)> read;
  // Returns the states after the block, for all rows or at least for those in `taken` (null: all).
  std::function<Variable(
      const Variable& read, std::int64_t step, const std::shared_ptr<const ActiveRows>& taken)>
      run;
};

// Parameters of the halting unit: "weight" [1, width] and "bias" [1].
class AdaptiveComputationTime {
 public:
  AdaptiveComputationTime(const Scope& scope, std::int64_t width, const ActOptions& options);

  // x: [batch, time, width], outside split regions. real: [batch, time] u8 on the device of x, 0 at
  // padding, which takes no step. Undefined `real`: no padding. The block runs over all positions,
  // because others still attend to halted ones. It repeats until all positions have halted on every
  // rank that shares the rows' time or the weights. Collective over these ranks. With pass.kv_cache
  // the block always runs the maximum number of steps, because later positions attend to every step
  // of earlier ones. Decisions are cached with ForwardContext::decide and are identical on all
  // tensor ranks.
  ActResult operator()(const Variable& x,
                       const RecurrentBlock& block,
                       const Tensor& real,
                       const ForwardContext& pass) const;

 private:
  Variable logits(const Variable& states) const;
  Tensor decide(const Variable& logits,
                const Variable& sums,
                const Tensor& before,
                std::int64_t step,
                const ForwardContext& pass) const;

  ProcessMesh mesh_;
  ActOptions options_;
  Linear unit_;
  Weight bias_;
};

}  // namespace longspan
