// Update rule of an optimizer, with its state.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "checkpoints/training_state.h"
#include "framework/kernels/optimizer.h"
#include "framework/nn/parameters.h"

namespace longspan {

struct UpdateStep {
  std::int64_t number = 1;  // update number, from 1
  double learning_rate = 0;
  double gradient_factor = 1;
};

// Works on this rank's shard of a model's parameters, which must outlive it. For sharded tensors
// (by tensor parallelism or ZeRO), per-tensor quantities are those of the unsharded tensor.
class OptimizerRule {
 public:
  virtual ~OptimizerRule() = default;

  // Collective if the rule needs quantities of unsharded tensors. Updates the masters and the
  // compute copies. All gradients are present and reduced; their contents are unspecified
  // afterwards.
  virtual void update(const UpdateStep& step) = 0;

  // Clamps the rule's state of bounded parameters on this rank, after an update and after their
  // masters were clamped.
  virtual void clamp_to_bounds() const {}

  // Describes the state, as a clause; a run resumes only from a checkpoint with an equal
  // description.
  virtual std::string state_signature() const = 0;
  virtual void add_to(TrainingState& state) const = 0;
  virtual void save(Scalars& /*scalars*/) const {}
  virtual void restore(const Scalars& /*scalars*/) {}

  // Returns the learning rate that the rule uses, given the schedule's rate.
  virtual double learning_rate(double scheduled, std::int64_t /*update*/) const {
    return scheduled;
  }
  // After `updates` updates: computes the training weights from masters and state, where they
  // differ from the masters. This rank's shard.
  virtual void write_training_weights(std::int64_t /*updates*/) const {}
};

// Flat range of an update: a run of adjacent parameters, or one parameter.
inline OptimizerRange range_of(const FlatParameterRun& run,
                               const UpdateStep& step,
                               double weight_decay) {
  return {.weight = run.shard_master,
          .gradient = run.shard_gradient,
          .compute = run.shard_compute,
          .gradient_factor = step.gradient_factor,
          .learning_rate = step.learning_rate,
          .weight_decay = run.decays ? weight_decay : 0};
}
inline OptimizerRange range_of(const Parameter& parameter,
                               const UpdateStep& step,
                               double weight_decay) {
  return {.weight = parameter.shard_master,
          .gradient = parameter.shard_gradient,
          .compute = parameter.shard_compute,
          .gradient_factor = step.gradient_factor,
          .learning_rate = step.learning_rate,
          .weight_decay = parameter.decays ? weight_decay : 0};
}

// Initially zero, with the dtype and the sharding of the masters. The parameters must outlive it.
class StateBuffer {
 public:
  using Which = std::function<bool(const Parameter&)>;

  // `name`: in checkpoints, "optimizer/NAME/PARAMETER". `which`: the parameters with this state;
  // empty: all.
  StateBuffer(std::string name, const Parameters& parameters, const Which& which = {});

  // Returns [elements that this rank owns]. Runs require state for all parameters.
  Tensor of(const Parameter& parameter) const;
  Tensor of(const FlatParameterRun& run) const;

  void add_to(TrainingState& state) const;

 private:
  std::string name_;
  const Parameters& parameters_;
  std::unordered_map<const Parameter*, std::int64_t> places_;
  Tensor values_;
};

}  // namespace longspan
