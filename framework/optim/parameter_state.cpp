#include "framework/optim/parameter_state.h"

#include "checkpoints/box.h"
#include "framework/core/dispatch.h"
#include "framework/core/error.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/power_statistics.h"

namespace longspan {

void add_own(TrainingState& state,
             const std::string& name,
             const Parameters& parameters,
             const Parameter& parameter,
             const Tensor& values) {
  if (!parameters.reads(parameter)) return;
  const std::vector<std::int64_t> corner = parameter.offset();
  std::int64_t begin = 0;
  for (const Box& box :
       boxes_of_range(parameter.shape, parameter.shard_begin, parameter.shard_end)) {
    const std::int64_t end = begin + box.shape.elements();
    std::vector<std::int64_t> offset = corner;
    for (std::size_t axis = 0; axis < offset.size(); ++axis) offset[axis] += box.offset[axis];
    state.add_box(name,
                  values.slice(begin, end).reshape(box.shape),
                  parameter.global_shape,
                  std::move(offset),
                  parameters.is_primary_owner(parameter));
    begin = end;
  }
}

TrainingState weights_state(const Parameters& parameters) {
  TrainingState state;
  for (const auto& parameter : parameters.all())
    add_own(state, parameter->name, parameters, *parameter, parameter->shard_master);
  for (const auto& each : parameters.centroids())
    state.add_box(each->name,
                  each->centroids,
                  each->global_shape(),
                  {each->head_begin, 0, 0},
                  parameters.mesh().replicas.rank() == 0);
  for (const auto& each : parameters.power_statistics())
    for (const auto& [name, values] : each->saved())
      state.add_box(name, values, values.shape(), {0}, parameters.mesh().world.rank() == 0);
  return state;
}

void check_ended(const Checkpoint& checkpoint, const Parameters& parameters) {
  for (const auto& parameter : parameters.all())
    if (parameter->active_steps && parameters.reads(*parameter) && !checkpoint.has(parameter->name))
      throw ConfigurationError(
          "{}: has no {}, whose training had ended, but would now end at step {}; set "
          "training.max_steps, training.lr_scheduler.total_steps and "
          "model.intermediate_losses.end_fraction as in the checkpoint, or start a new run from "
          "its weights: set another run.output_dir and training.init_from.path",
          checkpoint.path().string(),
          parameter->name,
          *parameter->active_steps);
}

void sum_over_elements(const Parameters& parameters, std::span<double> values) {
  const Tensor sums = Tensor::from<double>(std::span<const double>(values),
                                           {std::ssize(values)},
                                           parameters.device().host(),
                                           MemoryTag::workspace);
  parameters.mesh().world.all_reduce(sums, Reduction::sum);
  const auto found = sums.span<double>();
  std::copy(found.begin(), found.end(), values.begin());
}

std::vector<double> squared_norms(const Parameters& parameters,
                                  const std::function<Tensor(const Parameter&)>& own) {
  const auto& all = parameters.trained();
  const Tensor here =
      Tensor::zeros({std::ssize(all)}, DType::f64, parameters.device(), MemoryTag::workspace);
  for (std::int64_t i = 0; i < std::ssize(all); ++i) {
    const Parameter& parameter = *all[static_cast<std::size_t>(i)];
    if (!parameters.is_primary_owner(parameter) || parameter.shard_begin == parameter.shard_end)
      continue;
    on(parameters.device(),
       [&](auto backend) { sum_of_squares(backend, {own(parameter)}, here.slice(i, i + 1)); });
  }
  const Tensor found = here.to_host();
  std::vector<double> squares(found.span<double>().begin(), found.span<double>().end());
  sum_over_elements(parameters, squares);
  return squares;
}

std::vector<double> squared_norms_of_weights(const Parameters& parameters) {
  return squared_norms(parameters, [](const Parameter& each) { return each.shard_master; });
}

std::vector<double> squared_norms_of_gradients(const Parameters& parameters) {
  return squared_norms(parameters, [](const Parameter& each) { return each.shard_gradient; });
}

}  // namespace longspan
