// Adagrad (Duchi et al. 2011), with per-tensor gradient clipping as in adaptive spans (Sukhbaatar
// et al. 2019).
#include <cmath>

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"
#include "framework/optim/parameter_state.h"

namespace longspan {
namespace {

class Adagrad : public OptimizerRule {
 public:
  Adagrad(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options), parameters_(parameters), sum_("sum", parameters) {}

  void update(const UpdateStep& step) override {
    if (options_.grad_clip > 0)
      update_clipped(step);
    else
      for (const FlatParameterRun& run : parameters_.runs())
        update_range(range_of(run, step, options_.weight_decay), sum_.of(run));
  }

  std::string state_signature() const override { return "the squared sums of adagrad"; }
  void add_to(TrainingState& state) const override { sum_.add_to(state); }

 private:
  void update_range(const OptimizerRange& range, const Tensor& sum) const {
    on(parameters_.device(), [&](auto backend) {
      adagrad_update(backend,
                     {.range = range, .sum = sum, .epsilon = options_.epsilon.value_or(1e-10)});
    });
  }

  // Clipping shortens the step of a tensor; the accumulated squares are of the unclipped gradient.
  // The clipped gradient includes weight decay.
  void update_clipped(const UpdateStep& step) const {
    const Device& device = parameters_.device();
    for (const auto& parameter : parameters_.trained()) {
      if (!parameters_.reads(*parameter)) continue;
      const OptimizerRange range = range_of(*parameter, step, options_.weight_decay);
      on(device, [&](auto backend) {
        scale(backend, step.gradient_factor, range.gradient, range.gradient);
        if (range.weight_decay > 0)
          accumulate(backend, range.weight_decay, range.weight, range.gradient);
      });
    }
    const std::vector<double> squares = squared_norms_of_gradients(parameters_);
    for (std::size_t i = 0; const auto& parameter : parameters_.trained()) {
      const double norm = std::sqrt(squares[i++]);
      if (!parameters_.reads(*parameter)) continue;
      OptimizerRange range = range_of(*parameter, step, 0);
      range.gradient_factor = 1;
      if (norm > options_.grad_clip) range.learning_rate *= options_.grad_clip / (norm + 1e-10);
      update_range(range, sum_.of(*parameter));
    }
  }

  OptimizerOptions options_;
  const Parameters& parameters_;
  StateBuffer sum_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_adagrad(const OptimizerOptions& options,
                                            const Parameters& parameters) {
  return std::make_unique<Adagrad>(options, parameters);
}

}  // namespace longspan
