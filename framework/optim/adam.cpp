// Adam (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019) with decoupled weight decay, and RAdam
// (Liu et al. 2020, algorithm 2), which rectifies the variance of early steps.
#include <cmath>

#include "framework/core/dispatch.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"

namespace longspan {
namespace {

// Returns the factor of an update's learning rate. 0 while the variance of the second moment is
// intractable; the update then uses only the first moment.
double rectification(double beta2, std::int64_t update) {
  const auto t = static_cast<double>(update);
  const double longest = 2 / (1 - beta2) - 1;
  const double power = std::pow(beta2, t);
  const double length = longest - 2 * t * power / (1 - power);
  if (length <= 4) return 0;
  return std::sqrt((length - 4) * (length - 2) * longest /
                   ((longest - 4) * (longest - 2) * length));
}

class Adam : public OptimizerRule {
 public:
  Adam(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options),
        parameters_(parameters),
        first_("exp_avg", parameters),
        second_("exp_avg_sq", parameters) {}

  void update(const UpdateStep& step) override {
    const double beta2 = options_.beta2.value_or(0.999);
    const double rectified = rectifies() ? rectification(beta2, step.number) : 1;
    for (const FlatParameterRun& run : parameters_.runs())
      on(parameters_.device(), [&](auto backend) {
        adam_update(backend,
                    {.range = range_of(run, step, options_.weight_decay),
                     .first = first_.of(run),
                     .second = second_.of(run),
                     .beta1 = options_.beta1.value_or(0.9),
                     .beta2 = beta2,
                     .epsilon = options_.epsilon.value_or(1e-8),
                     .step = step.number,
                     .decoupled = options_.kind != OptimizerKind::adam,
                     .rectification = rectified > 0 ? rectified : 1,
                     .adapts = rectified > 0});
      });
  }

  std::string state_signature() const override {
    return rectifies() ? "the moments of radam" : "the moments of adam or adamw";
  }
  void add_to(TrainingState& state) const override {
    first_.add_to(state);
    second_.add_to(state);
  }

 private:
  bool rectifies() const { return options_.kind == OptimizerKind::radam; }

  OptimizerOptions options_;
  const Parameters& parameters_;
  StateBuffer first_;
  StateBuffer second_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_adam(const OptimizerOptions& options,
                                         const Parameters& parameters) {
  return std::make_unique<Adam>(options, parameters);
}

}  // namespace longspan
