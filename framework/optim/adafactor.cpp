// Adafactor (Shazeer & Stern 2018): second moments of a matrix are factored into row and column
// moments.
#include <algorithm>
#include <cmath>
#include <optional>

#include "framework/kernels/elementwise.h"
#include "framework/kernels/precondition.h"
#include "framework/optim/factored_squares.h"
#include "framework/optim/global_norms.h"
#include "framework/optim/kinds.h"
#include "framework/optim/state_buffer.h"

namespace longspan {
namespace {

bool is_vector(const Parameter& parameter) { return !FactoredSecondMoment::has(parameter); }

class Adafactor : public OptimizerRule {
 public:
  Adafactor(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options),
        parameters_(parameters),
        factored_(parameters),
        second_("exp_avg_sq", parameters, is_vector) {
    if (options.beta1) first_.emplace("exp_avg", parameters);
  }

  double learning_rate(double scheduled, std::int64_t update) const override {
    if (!options_.adafactor.relative_step) return scheduled;
    const auto t = static_cast<double>(update);
    return std::min(options_.adafactor.slow_start ? 1e-6 * t : 1e-2, 1 / std::sqrt(t));
  }

  void update(const UpdateStep& step) override {
    // Norms before the step.
    const std::vector<double> weights = options_.adafactor.scale_by_weights
                                            ? squared_norms_of_weights(parameters_)
                                            : std::vector<double>();
    write_directions(step);
    const std::vector<double> directions = squared_norms_of_gradients(parameters_);
    for (std::size_t i = 0; i < directions.size(); ++i) {
      const Parameter& parameter = *parameters_.trained()[i];
      if (!parameters_.reads(parameter)) continue;
      const auto root_mean = [&](double squares) {
        return std::sqrt(squares / static_cast<double>(parameter.global_shape.elements()));
      };
      double rate = step.learning_rate;
      if (!weights.empty()) rate *= std::max(options_.adafactor.min_scale, root_mean(weights[i]));
      const double too_long = root_mean(directions[i]) / options_.adafactor.clipping_threshold;
      follow(parameter, rate, rate / std::max(too_long, 1.0));
    }
  }

  std::string state_signature() const override {
    return first_ ? "the factored second moments and the first moment of adafactor"
                  : "the factored second moments of adafactor";
  }
  void add_to(TrainingState& state) const override {
    factored_.add_to(state);
    second_.add_to(state);
    if (first_) first_->add_to(state);
  }

 private:
  void write_directions(const UpdateStep& step) {
    const double beta2 =
        1 - std::pow(static_cast<double>(step.number), -options_.adafactor.decay_exponent);
    const double epsilon = options_.epsilon.value_or(1e-30);
    factored_.update(step.gradient_factor, epsilon, beta2);
    for (std::size_t i = 0; const auto& parameter : parameters_.trained()) {
      const std::size_t index = i++;
      if (!parameters_.reads(*parameter)) continue;
      if (!is_vector(*parameter)) {
        factored_.divide_by_root(index, step.gradient_factor);
        continue;
      }
      on(parameters_.device(), [&](auto backend) {
        rms_precondition(backend,
                         {.gradient = parameter->shard_gradient,
                          .second = second_.of(*parameter),
                          .gradient_factor = step.gradient_factor,
                          .beta2 = beta2,
                          .epsilon = epsilon});
      });
    }
  }

  // The decay is proportional to the rate, the step to the rate after clipping.
  void follow(const Parameter& parameter, double rate, double step) const {
    const double decay = parameter.decays ? options_.weight_decay : 0;
    ApplyUpdate update = {.weight = parameter.shard_master,
                          .direction = parameter.shard_gradient,
                          .compute = parameter.shard_compute,
                          .decay_factor = 1 - decay * rate,
                          .rate = step};
    on(parameters_.device(), [&](auto backend) {
      if (first_) {
        const double beta1 = *options_.beta1;
        const Tensor moment = first_->of(parameter);
        scale(backend, beta1, moment, moment);
        accumulate(backend, (1 - beta1) * step, parameter.shard_gradient, moment);
        update.direction = moment;
        update.rate = 1;
      }
      apply_update(backend, update);
    });
  }

  OptimizerOptions options_;
  const Parameters& parameters_;
  FactoredSecondMoment factored_;
  StateBuffer second_;  // of vectors
  std::optional<StateBuffer> first_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_adafactor(const OptimizerOptions& options,
                                              const Parameters& parameters) {
  return std::make_unique<Adafactor>(options, parameters);
}

}  // namespace longspan
