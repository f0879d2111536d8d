// Applies gradients to the weights.
#pragma once

#include <memory>

#include "checkpoints/checkpoint.h"
#include "checkpoints/training_state.h"
#include "framework/nn/parameters.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"

namespace longspan {

// Optimizer over this rank's shard of a model's parameters, which must outlive it.
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, const Parameters& parameters);

  // Returns the learning rate of the next update, given the schedule's rate `scheduled`.
  double learning_rate(double scheduled) const {
    return rule_->learning_rate(scheduled, updates_ + 1);
  }
  // Collective if anything is sharded or the rule needs norms of unsharded tensors. Performs one
  // update, with every gradient multiplied by gradient_factor. Parameters without a gradient count
  // as zero gradients. Consumes the gradients, refreshes the compute copies and gathers the
  // weights.
  void update(double learning_rate, double gradient_factor);

  // Updates so far.
  std::int64_t updates() const { return updates_; }

  // Collective if anything is sharded. Selects the weights that the model computes with. Some
  // optimizers train with weights that differ from the stored ones, which are evaluated and saved.
  void use_eval_weights() const;
  void use_train_weights() const;

  // Adds the optimizer state to a training state, under "optimizer/STATE/NAME". `save` writes and
  // `restore` reads the scalars "optimizer/num_updates", "optimizer/state_signature" and those of
  // some types.
  void add_to(TrainingState& state) const { rule_->add_to(state); }
  void save(Scalars& scalars) const;
  void restore(const Scalars& scalars);
  // Throws ConfigurationError if a checkpoint has the state of another optimizer, before its
  // tensors are read.
  void check_compatible(const Checkpoint& checkpoint) const;

 private:
  const Parameters& parameters_;
  std::unique_ptr<OptimizerRule> rule_;
  std::int64_t updates_ = 0;
};

// Writes to `total`, one f64 on the parameters' device, the sum of squares of the reduced gradients
// that this rank owns and is responsible for. The sum over all ranks counts each element once. Does
// not synchronize with a GPU.
void sum_squared_gradients(const Parameters& parameters, const Tensor& total);

// As above, for the weights (masters). The sum is finite only if all weights are.
void sum_squared_weights(const Parameters& parameters, const Tensor& total);

// Returns min(1, limit / (norm + 1e-6)), or 1 if the limit is 0.
double clip_factor(double norm, double limit);

}  // namespace longspan
