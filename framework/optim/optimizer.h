// What turns gradients into new weights.
#pragma once

#include <memory>

#include "checkpoints/checkpoint.h"
#include "checkpoints/training_state.h"
#include "framework/nn/parameters.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"

namespace longspan {

// The optimizer of a model's parameters, which must outlive it: over what this rank owns of them.
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, const Parameters& parameters);

  // The learning rate of the next update, where the schedule's is `scheduled`.
  double learning_rate(double scheduled) const {
    return rule_->learning_rate(scheduled, updates_ + 1);
  }
  // One update with every gradient multiplied by gradient_factor; parameters without a gradient
  // count as having zeros. Gradients are used up. Renews the compute copies and gathers the
  // weights: collective where something is shared out, or asked of whole tensors.
  void update(double learning_rate, double gradient_factor);

  // Updates so far.
  std::int64_t updates() const { return updates_; }

  // Some optimizers train at other weights than those that they keep, which are measured and saved:
  // from here on the model computes with the ones or the others. Collective where something is
  // shared out.
  void use_eval_weights() const;
  void use_train_weights() const;

  // Adds what it keeps under "optimizer/WHAT/NAME" to a state. The scalars "optimizer/updates",
  // "optimizer/keeps" and others of some kinds are set by `save` and taken by `restore`.
  void add_to(TrainingState& state) const { rule_->add_to(state); }
  void save(Scalars& scalars) const;
  void restore(const Scalars& scalars);
  // Throws ConfigurationError where a checkpoint has what another optimizer keeps, before its
  // tensors are looked for.
  void check_compatible(const Checkpoint& checkpoint) const;

 private:
  const Parameters& parameters_;
  std::unique_ptr<OptimizerRule> rule_;
  std::int64_t updates_ = 0;
};

// total, one f64 on the parameters' device: the sum of the squares of what this rank owns and
// answers for of the reduced gradients. The sum over all ranks counts each element once. A GPU is
// not waited for.
void sum_squared_gradients(const Parameters& parameters, const Tensor& total);

// The same of the weights (masters): finite where all of them are.
void sum_squared_weights(const Parameters& parameters, const Tensor& total);

// min(1, limit / (norm + 1e-6)), or 1 where the limit is 0.
double clip_factor(double norm, double limit);

}  // namespace longspan
