#include "framework/train/optimizer.h"

#include <algorithm>

#include "framework/kernels/elementwise.h"
#include "framework/kernels/optimizer.h"
#include "framework/train/parameter_state.h"

namespace longspan {
namespace {

// What this rank updates a parameter by: zeros where no gradient arrived.
Tensor own_gradient(const Parameter& parameter) {
  const bool kept = parameter.gradient.defined();
  if (kept && !parameter.variable.gradient().defined()) parameter.variable.zero_gradient();
  return parameter.own_gradient;
}

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options, const Parameters& parameters)
    : options_(options), parameters_(parameters) {
  const auto zeros = [&] {
    return Tensor::zeros({parameters.own_elements()},
                         accumulator_of(parameters.compute_dtype()),
                         parameters.device(),
                         MemoryTag::optimizer);
  };
  const bool adam = options.kind != OptimizerKind::sgd;
  if (adam || options.momentum > 0) first_ = zeros();
  if (adam) second_ = zeros();
}

void Optimizer::update(double learning_rate, double gradient_factor) {
  ++updates_;
  for (const auto& parameter : parameters_.all())
    if (parameter->own_begin < parameter->own_end)
      update(*parameter, learning_rate, gradient_factor);
  parameters_.gather();
}

Tensor Optimizer::part(const Tensor& moments, const Parameter& parameter) const {
  const std::int64_t count = parameter.own_end - parameter.own_begin;
  return moments.defined() ? moments.slice(parameter.own_place, parameter.own_place + count)
                           : Tensor();
}

void Optimizer::update(const Parameter& parameter, double learning_rate, double gradient_factor) {
  const OptimizerRange range = {.weight = parameter.own_master,
                                .gradient = own_gradient(parameter),
                                .compute = parameter.own_compute,
                                .gradient_factor = gradient_factor,
                                .learning_rate = learning_rate,
                                .weight_decay = parameter.decays ? options_.weight_decay : 0};
  on(parameters_.device(), [&](auto backend) {
    if (options_.kind == OptimizerKind::sgd) {
      sgd_update(backend,
                 {.range = range,
                  .buffer = part(first_, parameter),
                  .momentum = options_.momentum,
                  .nesterov = options_.nesterov,
                  .step = updates_});
      return;
    }
    adam_update(backend,
                {.range = range,
                 .first = part(first_, parameter),
                 .second = part(second_, parameter),
                 .beta1 = options_.beta1,
                 .beta2 = options_.beta2,
                 .epsilon = options_.epsilon,
                 .step = updates_,
                 .decoupled = options_.kind == OptimizerKind::adamw});
  });
}

void Optimizer::add_to(TrainingState& state) const {
  const auto add = [&](const std::string& name, const Tensor& moments) {
    if (!moments.defined()) return;
    for (const auto& parameter : parameters_.all())
      add_own(state,
              "optimizer/" + name + "/" + parameter->name,
              parameters_,
              *parameter,
              part(moments, *parameter));
  };
  add("first", first_);
  add("second", second_);
}

void sum_squared_gradients(const Parameters& parameters, const Tensor& total) {
  std::vector<Tensor> gradients;
  for (const auto& parameter : parameters.all())
    if (parameters.answers_for(*parameter)) gradients.push_back(own_gradient(*parameter));
  on(parameters.device(), [&](auto backend) { sum_of_squares(backend, gradients, total); });
}

double clip_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

}  // namespace longspan
