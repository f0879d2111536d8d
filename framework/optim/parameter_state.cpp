#include "framework/optim/parameter_state.h"

#include "checkpoints/box.h"
#include "framework/core/error.h"
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

}  // namespace longspan
