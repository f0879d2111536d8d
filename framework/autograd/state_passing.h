// Gated recurrence over positions that ranks share (state passing): each rank runs its own ranges
// of positions, and the state at the end of a range goes to the rank that has the next one.
//
// The heads pass in groups, as in a pipeline: while one rank runs a group over its range, the next
// rank runs the previous group. With r ranges in time order and n groups, a pass takes r + n - 1
// ticks. Backward, the gradients of the states go the other way.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/autograd/chunk_state.h"
#include "framework/autograd/ring_attention.h"
#include "framework/kernels/attention/gated_recurrence.h"

namespace longspan {

// Runs the kernel and counts its operations.
void run_and_count(const GatedRecurrence& call);
void run_and_count(const GatedRecurrenceGradient& call);

class StatePassing {
 public:
  // `records`: whether a backward pass follows. Throws Failure if no rank has a position.
  StatePassing(const SequenceShards& shares, bool records);

  // Writes call.out, for this rank's rows, and the state after all positions (`ends`), equal on all
  // ranks. The state before them must be equal on all ranks. Ignores initial, final_state and
  // checkpoints of `call`. Collective.
  void forward(const GatedRecurrence& call, const ChunkBoundaries& ends);
  // Writes the defined gradients of this rank's rows, and that of the state before all positions,
  // equal on all ranks. Ignores dfinal and dinitial of `call`. Follows `forward`. Collective.
  void backward(const GatedRecurrenceGradient& call, const ChunkBoundaries& ends) const;

 private:
  // A range of positions.
  struct Stage {
    int rank;
    Range rows;  // of that rank
  };

  // Runs all stages for all groups of heads, in this order of the stages. work(stage, heads, x)
  // runs a stage of this rank and returns what the next stage receives as x, a tensor like `state`.
  // The first stage receives an undefined tensor.
  template <typename Work>
  void run(const std::vector<std::size_t>& order, const Tensor& state, const Work& work) const;
  // Passes done[i] on as arrived[i + 1], for the stages order[i] that have run in this tick.
  void hand_over(const std::vector<std::size_t>& order,
                 std::int64_t tick,
                 const Tensor& state,
                 const std::vector<Tensor>& done,
                 std::vector<Tensor>& arrived) const;
  bool is_first(std::size_t stage) const { return stage == 0; }
  bool is_last(std::size_t stage) const { return stage + 1 == stages_.size(); }
  // Whether step `step` of the order runs.
  bool runs_in(std::int64_t tick, std::size_t step) const {
    const std::int64_t group = tick - static_cast<std::int64_t>(step);
    return group >= 0 && group < groups_;
  }

  Communicator ranks_;
  bool records_;
  std::vector<Stage> stages_;  // in time order
  std::int64_t groups_ = 1;
  // Checkpoints by stage and group, of this rank's stages.
  std::vector<std::vector<Tensor>> checkpoints_;
};

}  // namespace longspan
