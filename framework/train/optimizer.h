// What turns gradients into new weights.
#pragma once

#include "checkpoints/checkpoint.h"
#include "checkpoints/training_state.h"
#include "framework/nn/parameters.h"
#include "framework/train/training_options.h"

namespace longspan {

// Adam, AdamW or SGD over what this rank owns of a model's parameters, which must outlive it.
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, const Parameters& parameters);

  // One update with every gradient multiplied by gradient_factor; parameters without a gradient
  // count as having zeros. Renews the compute copies and gathers the weights: collective where
  // something is shared out.
  void update(double learning_rate, double gradient_factor);

  // Updates so far.
  std::int64_t updates() const { return updates_; }

  // Adds the moments under "optimizer/first/NAME" and such to a state. The scalars
  // "optimizer/updates" and "optimizer/keeps" are set by `save` and taken by `restore`.
  void add_to(TrainingState& state) const;
  void save(Scalars& scalars) const;
  void restore(const Scalars& scalars) {
    updates_ = scalars.get<std::int64_t>("optimizer/updates");
  }
  // Throws ConfigurationError where a checkpoint has moments of another optimizer, before its
  // tensors are looked for.
  void judge(const Checkpoint& checkpoint) const;

 private:
  std::string kept() const;
  void update(const ParameterRun& run, double learning_rate, double gradient_factor);

  OptimizerOptions options_;
  const Parameters& parameters_;
  // Of all that this rank owns, each parameter at its `own_place`.
  Tensor first_;   // Adam's first moment or SGD's momentum
  Tensor second_;  // Adam's second moment
  std::int64_t updates_ = 0;
};

// total, one f64 on the parameters' device: the sum of the squares of what this rank owns and
// answers for of the reduced gradients. The sum over all ranks counts each element once. A GPU is
// not waited for.
void sum_squared_gradients(const Parameters& parameters, const Tensor& total);

// min(1, limit / (norm + 1e-6)), or 1 where the limit is 0.
double clip_factor(double norm, double limit);

}  // namespace longspan
