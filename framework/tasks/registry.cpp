#include <algorithm>
#include <array>

#include "framework/tasks/classification.h"
#include "framework/tasks/language_model.h"
#include "framework/tasks/pixels.h"
#include "framework/tasks/recall.h"
#include "framework/tasks/reinforcement.h"
#include "framework/tasks/tagging.h"
#include "framework/tasks/translation.h"

namespace longspan {

std::span<const TaskKind> task_kinds() {
  static const std::array all = {language_model_task(),
                                 translation_task(),
                                 tagging_task(),
                                 classification_task(),
                                 pixels_task(),
                                 recall_task(),
                                 reinforcement_task()};
  return all;
}

const TaskKind& task_kind(std::string_view name) {
  const auto kinds = task_kinds();
  const auto found = std::ranges::find(kinds, name, &TaskKind::name);
  require(found != kinds.end(), "there is no task `{}`", name);
  return *found;
}

ModelIds planned_ids(const TaskKind& kind,
                     const DataOptions& data,
                     std::uint64_t seed,
                     const ScanListener& listener) {
  ModelIds ids(planned_vocabulary(data, listener) + (kind.ids_beside ? kind.ids_beside(data) : 0),
               kind.planned_classes ? kind.planned_classes(data, listener) : 0);
  if (kind.planned_batches) ids.batches = kind.planned_batches(data, seed, listener);
  if (kind.planned_image) ids.image = kind.planned_image(data, listener);
  return ids;
}

std::optional<double> Measurement::find(std::string_view name) const {
  const auto found = std::ranges::find(figures, name, &Figure::name);
  if (found == figures.end()) return std::nullopt;
  return found->value;
}

}  // namespace longspan
