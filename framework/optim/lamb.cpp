// LAMB (You et al. 2020): Adam with step sizes proportional to the norm of each tensor.
#include <algorithm>
#include <cmath>

#include "framework/core/dispatch.h"
#include "framework/kernels/precondition.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"
#include "framework/optim/parameter_state.h"

namespace longspan {
namespace {

class Lamb : public OptimizerRule {
 public:
  Lamb(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options),
        parameters_(parameters),
        first_("exp_avg", parameters),
        second_("exp_avg_sq", parameters) {}

  void update(const UpdateStep& step) override {
    for (const auto& parameter : parameters_.trained())
      if (parameters_.reads(*parameter)) write_direction(*parameter, step);
    const std::vector<double> weights = squared_norms_of_weights(parameters_);
    const std::vector<double> directions = squared_norms_of_gradients(parameters_);
    for (std::size_t i = 0; const auto& parameter : parameters_.trained()) {
      const double ratio = trust(std::sqrt(weights[i]), std::sqrt(directions[i]));
      ++i;
      if (!parameters_.reads(*parameter)) continue;
      on(parameters_.device(), [&](auto backend) {
        apply_update(backend,
                     {.weight = parameter->shard_master,
                      .direction = parameter->shard_gradient,
                      .compute = parameter->shard_compute,
                      .rate = step.learning_rate * ratio});
      });
    }
  }

  std::string state_signature() const override { return "the moments of lamb"; }
  void add_to(TrainingState& state) const override {
    first_.add_to(state);
    second_.add_to(state);
  }

 private:
  void write_direction(const Parameter& parameter, const UpdateStep& step) const {
    on(parameters_.device(), [&](auto backend) {
      adam_precondition(backend,
                        {.weight = parameter.shard_master,
                         .gradient = parameter.shard_gradient,
                         .first = first_.of(parameter),
                         .second = second_.of(parameter),
                         .gradient_factor = step.gradient_factor,
                         .beta1 = options_.beta1.value_or(0.9),
                         .beta2 = options_.beta2.value_or(0.999),
                         .epsilon = options_.epsilon.value_or(1e-6),
                         .weight_decay = parameter.decays ? options_.weight_decay : 0,
                         .step = step.number,
                         .corrects_bias = options_.lamb.bias_correction});
    });
  }

  // The trust ratio is undefined for zero weights or zero updates.
  double trust(double weight, double direction) const {
    const double largest = options_.lamb.max_weight_norm;
    const double counted = largest > 0 ? std::min(weight, largest) : weight;
    return counted > 0 && direction > 0 ? counted / direction : 1;
  }

  OptimizerOptions options_;
  const Parameters& parameters_;
  StateBuffer first_;
  StateBuffer second_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_lamb(const OptimizerOptions& options,
                                         const Parameters& parameters) {
  return std::make_unique<Lamb>(options, parameters);
}

}  // namespace longspan
