// Schedule-free AdamW (Defazio et al. 2024): stores the average of a fast weight sequence and
// computes gradients between the two.
#include <cmath>

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"

namespace longspan {
namespace {

// The masters are the average, which is evaluated, saved and loaded. Training computes gradients at
// another point, so parameters need separate masters in any dtype.
class ScheduleFree : public OptimizerRule {
 public:
  ScheduleFree(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options),
        parameters_(parameters),
        fast_("z", parameters),
        second_("exp_avg_sq", parameters) {
    require(parameters.separate_masters(), "schedule_free_adamw requires separate master weights");
  }

  void update(const UpdateStep& step) override {
    const double beta2 = options_.beta2.value_or(0.999);
    const double rate =
        step.learning_rate * std::sqrt(1 - std::pow(beta2, static_cast<double>(step.number)));
    rates_ += rate * rate;
    const double share = rates_ > 0 ? rate * rate / rates_ : 0;
    for (const FlatParameterRun& run : parameters_.runs()) {
      const Tensor fast = fast_.of(run);
      // The initial weights are available only at the first step.
      if (step.number == 1) fast.copy_from(run.shard_master);
      on(parameters_.device(), [&](auto backend) {
        schedule_free_update(backend,
                             {.range = range_of(run, step, options_.weight_decay),
                              .fast = fast,
                              .second = second_.of(run),
                              .beta1 = beta1(),
                              .beta2 = beta2,
                              .epsilon = options_.epsilon.value_or(1e-8),
                              .share = share,
                              .step = step.number});
      });
    }
  }

  void clamp_to_bounds() const override {
    for (const auto& parameter : parameters_.trained()) {
      if (!parameter->range || parameter->shard_begin == parameter->shard_end) continue;
      const Tensor fast = fast_.of(*parameter);
      on(parameters_.device(), [&](auto backend) {
        clamp(backend, fast, parameter->range->least, parameter->range->most);
        interpolate(backend, beta1(), parameter->shard_master, fast, parameter->shard_compute);
      });
    }
  }

  std::string state_signature() const override { return "the fast weights of schedule_free_adamw"; }
  void add_to(TrainingState& state) const override {
    fast_.add_to(state);
    second_.add_to(state);
  }
  void save(Scalars& scalars) const override { scalars.set(rates_name, rates_); }
  void restore(const Scalars& scalars) override { rates_ = scalars.get<double>(rates_name); }

  void write_training_weights(std::int64_t updates) const override {
    if (updates == 0) return;
    for (const FlatParameterRun& run : parameters_.runs())
      on(parameters_.device(), [&](auto backend) {
        interpolate(backend, beta1(), run.shard_master, fast_.of(run), run.shard_compute);
      });
  }

 private:
  static constexpr const char* rates_name = "optimizer/sum_squared_lr";

  double beta1() const { return options_.beta1.value_or(0.9); }

  OptimizerOptions options_;
  const Parameters& parameters_;
  StateBuffer fast_;
  StateBuffer second_;
  double rates_ = 0;  // sum of squares over all updates
};

}  // namespace

std::unique_ptr<OptimizerRule> make_schedule_free(const OptimizerOptions& options,
                                                  const Parameters& parameters) {
  return std::make_unique<ScheduleFree>(options, parameters);
}

}  // namespace longspan
