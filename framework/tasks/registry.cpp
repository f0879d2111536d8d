#include <algorithm>
#include <array>

#include "framework/tasks/language_model.h"
#include "framework/tasks/translation.h"

namespace longspan {

std::span<const TaskKind> task_kinds() {
  static const std::array all = {language_model_task(), translation_task()};
  return all;
}

const TaskKind& task_kind(std::string_view name) {
  const auto kinds = task_kinds();
  const auto found = std::ranges::find(kinds, name, &TaskKind::name);
  require(found != kinds.end(), "there is no task `{}`", name);
  return *found;
}

std::optional<double> Measurement::find(std::string_view name) const {
  const auto found = std::ranges::find(figures, name, &Figure::name);
  if (found == figures.end()) return std::nullopt;
  return found->value;
}

}  // namespace longspan
