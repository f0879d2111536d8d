#include "framework/optim/optimizer.h"

#include <algorithm>

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/optim/optimizer_options.h"

namespace longspan {
namespace {

// Parameters without a gradient count as zero gradients.
void complete_gradients(const Parameters& parameters) {
  for (const auto& parameter : parameters.trained())
    if (parameter->gradient.defined() && !parameter->variable.gradient().defined())
      parameter->variable.zero_gradient();
}

void sum_squares_of_runs(const Parameters& parameters,
                         Tensor FlatParameterRun::*which,
                         const Tensor& total) {
  std::vector<Tensor> tensors;
  for (const FlatParameterRun& run : parameters.runs())
    if (run.answered_for) tensors.push_back(run.*which);
  on(parameters.device(), [&](auto backend) { sum_of_squares(backend, tensors, total); });
}

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options, const Parameters& parameters)
    : parameters_(parameters), rule_(entry_of(options.kind).make(options, parameters)) {}

void Optimizer::update(double learning_rate, double gradient_factor) {
  ++updates_;
  complete_gradients(parameters_);
  rule_->update(
      {.number = updates_, .learning_rate = learning_rate, .gradient_factor = gradient_factor});
  parameters_.clamp_to_bounds();
  rule_->clamp_to_bounds();
  parameters_.gather();
}

void Optimizer::use_eval_weights() const {
  if (parameters_.separate_masters()) parameters_.refresh_compute();
}

void Optimizer::use_train_weights() const {
  if (!parameters_.separate_masters()) return;
  rule_->write_training_weights(updates_);
  parameters_.gather();
}

void Optimizer::save(Scalars& scalars) const {
  scalars.set("optimizer/num_updates", updates_);
  scalars.set("optimizer/state_signature", rule_->state_signature());
  rule_->save(scalars);
}

void Optimizer::restore(const Scalars& scalars) {
  updates_ = scalars.get<std::int64_t>("optimizer/num_updates");
  rule_->restore(scalars);
}

void Optimizer::check_compatible(const Checkpoint& checkpoint) const {
  const std::string keeps = rule_->state_signature();
  // Older checkpoints lack the signature.
  const auto found = checkpoint.scalars().get_or<std::string>("optimizer/state_signature", keeps);
  if (found != keeps)
    throw ConfigurationError(
        "{}: expected the optimizer state of training.optimizer, {}, found {}; set "
        "training.optimizer as in the checkpoint, or start a new run from its weights: set another "
        "run.output_dir and training.init_from.path",
        checkpoint.path().string(),
        keeps,
        found);
}

void sum_squared_gradients(const Parameters& parameters, const Tensor& total) {
  complete_gradients(parameters);
  sum_squares_of_runs(parameters, &FlatParameterRun::shard_gradient, total);
}

void sum_squared_weights(const Parameters& parameters, const Tensor& total) {
  sum_squares_of_runs(parameters, &FlatParameterRun::shard_master, total);
}

double clip_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

}  // namespace longspan
