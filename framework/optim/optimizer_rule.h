// One kind of optimizer: what it keeps, and how it makes new weights of gradients.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoints/training_state.h"
#include "framework/kernels/optimizer.h"
#include "framework/nn/parameters.h"

namespace longspan {

struct UpdateStep {
  std::int64_t number = 1;  // of the update, from 1
  double learning_rate = 0;
  double gradient_factor = 1;
};

// Over what this rank owns of a model's parameters, which outlive it. Where tensors are cut, by
// tensor ranks or by what is shared out, what a rule asks of a tensor is that of the whole tensor.
class OptimizerRule {
 public:
  virtual ~OptimizerRule() = default;

  // Renews the masters and what is computed with of them; every gradient is there, reduced, and may
  // be left as anything. Collective where the rule asks something of whole tensors.
  virtual void update(const UpdateStep& step) = 0;

  // After an update, and after the masters of parameters that have a range were held to it: what
  // the rule keeps of those is held to it too. This rank's part.
  virtual void clamp_to_bounds() const {}

  // What it keeps, as a clause: a run goes on only from a checkpoint with the same.
  virtual std::string state_signature() const = 0;
  virtual void add_to(TrainingState& state) const = 0;
  virtual void save(Scalars& /*scalars*/) const {}
  virtual void restore(const Scalars& /*scalars*/) {}

  // The learning rate that it takes where the schedule's is `scheduled`.
  virtual double learning_rate(double scheduled, std::int64_t /*update*/) const {
    return scheduled;
  }
  // After `updates` updates: writes what the forward pass of training reads from the masters and
  // what it keeps, where it is not the masters. This rank's part.
  virtual void write_training_weights(std::int64_t /*updates*/) const {}
};

// What an update works on, of neighbours that are treated alike and of one parameter.
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

}  // namespace longspan
