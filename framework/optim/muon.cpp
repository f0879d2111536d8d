// Muon (Jordan et al. 2024): hidden matrices follow their orthogonalized momentum; other parameters
// use AdamW.
#include <algorithm>
#include <cmath>

#include "framework/kernels/precondition.h"
#include "framework/optim/kinds.h"
#include "framework/optim/matrix_rounds.h"
#include "framework/optim/newton_schulz.h"
#include "framework/optim/state_buffer.h"

namespace longspan {
namespace {

bool is_hidden(const Parameter& parameter) { return parameter.hidden; }
bool is_other(const Parameter& parameter) { return !parameter.hidden; }

class Muon : public OptimizerRule {
 public:
  Muon(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options),
        parameters_(parameters),
        rounds_(parameters, is_hidden),
        momentum_("momentum_buffer", parameters, is_hidden),
        first_("exp_avg", parameters, is_other),
        second_("exp_avg_sq", parameters, is_other) {}

  void update(const UpdateStep& step) override {
    for (const auto& parameter : parameters_.trained())
      if (parameter->hidden)
        write_direction(*parameter, step);
      else if (parameters_.reads(*parameter))
        update_by_adam(*parameter, step);
    rounds_.of_gradients(
        [this](const Tensor& whole) { orthogonalize(whole, options_.muon.iterations); });
    for (const auto& parameter : parameters_.trained())
      if (parameter->hidden) follow(*parameter, step);
  }

  std::string state_signature() const override {
    return "the momentum of muon and the moments of adamw";
  }
  void add_to(TrainingState& state) const override {
    momentum_.add_to(state);
    first_.add_to(state);
    second_.add_to(state);
  }

 private:
  void write_direction(const Parameter& parameter, const UpdateStep& step) const {
    on(parameters_.device(), [&](auto backend) {
      momentum_step(backend,
                    {.gradient = parameter.shard_gradient,
                     .buffer = momentum_.of(parameter),
                     .gradient_factor = step.gradient_factor,
                     .momentum = options_.momentum.value_or(0.95),
                     .nesterov = options_.nesterov.value_or(true)});
    });
  }

  // With the scale `adam` the update of an element has the size of Adam's (Liu et al. 2025), so
  // that both can share one learning rate. `spectral` scales by the spectral norm of the layer.
  double scale_of(const Parameter& parameter) const {
    const auto [rows, columns] = matrix_of(parameter.global_shape);
    const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
    return options_.muon.scale == MuonScale::adam ? 0.2 * std::sqrt(std::max(height, width))
                                                  : std::sqrt(std::max(1.0, height / width));
  }

  void follow(const Parameter& parameter, const UpdateStep& step) const {
    const double decay = parameter.decays ? options_.weight_decay : 0;
    on(parameters_.device(), [&](auto backend) {
      apply_update(backend,
                   {.weight = parameter.shard_master,
                    .direction = parameter.shard_gradient,
                    .compute = parameter.shard_compute,
                    .decay_factor = 1 - step.learning_rate * decay,
                    .rate = step.learning_rate * scale_of(parameter)});
    });
  }

  void update_by_adam(const Parameter& parameter, const UpdateStep& step) const {
    on(parameters_.device(), [&](auto backend) {
      adam_update(backend,
                  {.range = range_of(parameter, step, options_.weight_decay),
                   .first = first_.of(parameter),
                   .second = second_.of(parameter),
                   .beta1 = options_.beta1.value_or(0.9),
                   .beta2 = options_.beta2.value_or(0.95),
                   .epsilon = options_.epsilon.value_or(1e-8),
                   .step = step.number,
                   .decoupled = true});
    });
  }

  OptimizerOptions options_;
  const Parameters& parameters_;
  DistributedMatrixUpdate rounds_;
  StateBuffer momentum_;  // of hidden matrices
  StateBuffer first_;     // of other parameters
  StateBuffer second_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_muon(const OptimizerOptions& options,
                                         const Parameters& parameters) {
  return std::make_unique<Muon>(options, parameters);
}

}  // namespace longspan
