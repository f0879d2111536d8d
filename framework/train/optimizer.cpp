#include "framework/train/optimizer.h"

#include <algorithm>

#include "framework/kernels/elementwise.h"
#include "framework/kernels/optimizer.h"

namespace longspan {
namespace {

// The part of a flat buffer that belongs to a parameter.
Tensor part(const Tensor& flat, const Parameter& parameter) {
  return flat.defined() ? flat.slice(parameter.begin, parameter.begin + parameter.shape.elements())
                        : Tensor();
}

Tensor flattened(const Tensor& tensor) { return tensor.reshape({tensor.elements()}); }

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options, const Parameters& parameters)
    : options_(options), parameters_(parameters) {
  const Tensor& flat = parameters.flat_master();
  const auto zeros = [&] {
    return Tensor::zeros(flat.shape(), flat.dtype(), flat.device(), MemoryTag::optimizer);
  };
  const bool adam = options.kind != OptimizerKind::sgd;
  if (adam || options.momentum > 0) first_ = zeros();
  if (adam) second_ = zeros();
}

void Optimizer::update(double learning_rate, double gradient_factor) {
  ++updates_;
  for (const auto& parameter : parameters_.all())
    update(*parameter, learning_rate, gradient_factor);
}

void Optimizer::update(const Parameter& parameter, double learning_rate, double gradient_factor) {
  if (!parameter.variable.gradient().defined()) parameter.variable.zero_gradient();
  const bool has_copy = parameter.compute.dtype() != parameter.master.dtype();
  const OptimizerRange range = {.weight = flattened(parameter.master),
                                .gradient = flattened(parameter.gradient),
                                .compute = has_copy ? flattened(parameter.compute) : Tensor(),
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

void Optimizer::add_to(TrainingState& state, bool owner_of_replicas, bool owner_of_split) const {
  const auto add = [&](const std::string& name, const Tensor& flat) {
    if (!flat.defined()) return;
    for (const auto& parameter : parameters_.all())
      state.add_box("optimizer/" + name + "/" + parameter->name,
                    part(flat, *parameter).reshape(parameter->shape),
                    parameter->global_shape,
                    parameter->offset(),
                    parameter->split() ? owner_of_split : owner_of_replicas);
  };
  add("first", first_);
  add("second", second_);
}

double squared_gradient_norm(const Parameters& parameters) {
  const bool counts_replicas = parameters.mesh().tensor.rank() == 0;
  double total = 0;
  for (const auto& parameter : parameters.all()) {
    const Tensor gradient = parameter->variable.gradient();
    if (!gradient.defined() || !(parameter->split() || counts_replicas)) continue;
    on(gradient.device(), [&](auto backend) { total += sum_of_squares(backend, gradient); });
  }
  return total;
}

double clip_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

}  // namespace longspan
