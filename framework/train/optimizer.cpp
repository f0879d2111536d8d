#include "framework/train/optimizer.h"

#include <algorithm>

#include "framework/kernels/elementwise.h"
#include "framework/kernels/optimizer.h"
#include "framework/train/parameter_state.h"

namespace longspan {
namespace {

// Parameters that no gradient has reached count as having zeros.
void complete_gradients(const Parameters& parameters) {
  for (const auto& parameter : parameters.all())
    if (parameter->gradient.defined() && !parameter->variable.gradient().defined())
      parameter->variable.zero_gradient();
}

Tensor own_part(const Tensor& moments, std::int64_t place, std::int64_t elements) {
  return moments.defined() ? moments.slice(place, place + elements) : Tensor();
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
  complete_gradients(parameters_);
  for (const ParameterRun& run : parameters_.runs()) update(run, learning_rate, gradient_factor);
  parameters_.gather();
}

void Optimizer::update(const ParameterRun& run, double learning_rate, double gradient_factor) {
  const OptimizerRange range = {.weight = run.own_master,
                                .gradient = run.own_gradient,
                                .compute = run.own_compute,
                                .gradient_factor = gradient_factor,
                                .learning_rate = learning_rate,
                                .weight_decay = run.decays ? options_.weight_decay : 0};
  const auto part = [&](const Tensor& moments) {
    return own_part(moments, run.own_place, run.own_master.elements());
  };
  on(parameters_.device(), [&](auto backend) {
    if (options_.kind == OptimizerKind::sgd) {
      sgd_update(backend,
                 {.range = range,
                  .buffer = part(first_),
                  .momentum = options_.momentum,
                  .nesterov = options_.nesterov,
                  .step = updates_});
      return;
    }
    adam_update(backend,
                {.range = range,
                 .first = part(first_),
                 .second = part(second_),
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
              own_part(moments, parameter->own_place, parameter->own_end - parameter->own_begin));
  };
  add("first", first_);
  add("second", second_);
}

// As a clause: another optimizer makes nothing of it.
std::string Optimizer::kept() const {
  if (second_.defined()) return "the moments of adam or adamw";
  return first_.defined() ? "the momentum of sgd" : "nothing, as sgd without momentum";
}

void Optimizer::save(Scalars& scalars) const {
  scalars.set("optimizer/updates", updates_);
  scalars.set("optimizer/keeps", kept());
}

void Optimizer::judge(const Checkpoint& checkpoint) const {
  // Of an older checkpoint it is not known.
  const auto found = checkpoint.scalars().get_or<std::string>("optimizer/keeps", kept());
  if (found != kept())
    throw ConfigurationError(
        "{}: holds {}, and with training.optimizer as it is set a run keeps {}; set it as the "
        "checkpoint's run had it, or begin a new run with its weights alone: another run.directory "
        "and training.start_from",
        checkpoint.path().string(),
        found,
        kept());
}

void sum_squared_gradients(const Parameters& parameters, const Tensor& total) {
  complete_gradients(parameters);
  std::vector<Tensor> gradients;
  for (const ParameterRun& run : parameters.runs())
    if (run.answered_for) gradients.push_back(run.own_gradient);
  on(parameters.device(), [&](auto backend) { sum_of_squares(backend, gradients, total); });
}

double clip_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

}  // namespace longspan
