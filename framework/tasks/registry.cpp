#include "framework/tasks/registry.h"

#include <algorithm>
#include <array>

namespace longspan {

std::span<const TaskSpec> task_kinds() {
  static const std::array all = {language_model_task(),
                                 translation_task(),
                                 tagging_task(),
                                 classification_task(),
                                 image_generation_task(),
                                 behavior_cloning_task(),
                                 reinforcement_learning_task()};
  return all;
}

const TaskSpec& task_kind(std::string_view name) {
  const auto kinds = task_kinds();
  const auto found = std::ranges::find(kinds, name, &TaskSpec::name);
  require(found != kinds.end(), "unknown task `{}`", name);
  return *found;
}

DataSizes planned_ids(const TaskSpec& kind,
                      const DataOptions& data,
                      std::uint64_t seed,
                      const ProgressCallback& listener) {
  DataSizes ids(planned_vocabulary(data, listener) + (kind.extra_ids ? kind.extra_ids(data) : 0),
                kind.planned_classes ? kind.planned_classes(data, listener) : 0);
  if (kind.planned_batches) ids.batches = kind.planned_batches(data, seed, listener);
  if (kind.planned_image) ids.image = kind.planned_image(data, listener);
  return ids;
}

std::optional<double> Measurement::find(std::string_view name) const {
  const auto found = std::ranges::find(metric_values, name, &MetricValue::name);
  if (found == metric_values.end()) return std::nullopt;
  return found->value;
}

}  // namespace longspan
