// A block that each position goes through as often as it needs: adaptive computation time (Graves
// 2016) in depth (Dehghani et al. 2019).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "framework/nn/layers.h"

namespace longspan {

// Graves' rule; each deviation is one of the authors of tensor2tensor's.
struct ActOptions {
  // Whether a step's halting probability is read of the state that the step gives, or of what its
  // block is to read.
  enum class Reads : std::uint8_t { after, before };
  // The mean of the states, each weighed by its probability; the output so far and the new state
  // interpolated, step after step; or the last state.
  enum class Output : std::uint8_t { mean, interpolated, last };

  std::int64_t steps = 8;  // at most
  double slack = 0.01;     // a position halts where its probabilities sum to 1 - slack
  double bias = 1;         // of the probability's logit, at first
  Reads reads = Reads::after;
  Output output = Output::mean;
  bool freeze = true;            // the state of a position that halted stays as it is
  bool remainder_at_end = true;  // one that the last step stops has the remainder of its weight
  // Where states that halted stay as they are, the block is told which rows its result is read of.
  bool compaction = true;
};

// What a step decided: [positions].
struct ActStep {
  Tensor logits;
  Tensor weights;
  Tensor decisions;  // u8, kernels/halting.h
};

struct ActResult {
  Variable states;  // [batch, time, width], as x
  // [batch * time] of an accumulator dtype: the steps that a position took and its remainder, 0 of
  // padding.
  Variable costs;
  std::vector<ActStep> steps;  // one by one, until all halted
  std::int64_t taken = 0;      // by this rank's positions together
  // Of a pass without training, and empty otherwise: those of each position, [batch * time], 0 of
  // padding, and where the positions are.
  std::vector<std::int64_t> each = {};
  SequenceShard time = {};
};

// The block, from outside.
struct RecurrentBlock {
  // What the block reads in step 0, 1, ... of the states.
  std::function<Variable(const Variable& states, std::int64_t step)> read;
  // The states after it, of all rows or at least of those that are taken (null: all).
  std::function<Variable(
      const Variable& read, std::int64_t step, const std::shared_ptr<const ActiveRows>& taken)>
      run;
};

// Parameters "weight" [1, width] and "bias" [1], of the logit of halting.
class AdaptiveComputationTime {
 public:
  AdaptiveComputationTime(const Scope& scope, std::int64_t width, const ActOptions& options);

  // x: [batch, time, width], outside of split regions. real: [batch, time] u8 on its device, 1 but
  // for padding, which takes no step; undefined: there is none. The block runs over all positions,
  // as those that halted are still looked at, until all of them have on every rank that shares the
  // rows' time or the weights: those ranks must call this together. With pass.kept it always runs
  // as often as it may: positions that are read later look at every step of those before. Decisions
  // are the pass's (Pass::decide), and the same on all tensor ranks.
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
