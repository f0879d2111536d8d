// What keeps a task from labelled text.
#pragma once

#include <string>

#include "framework/tasks/labelled_task.h"

namespace longspan {

// For LabeledTaskSpec::problem, of text that has labels in its lines.
std::string labelled_text_problem(const LabeledTaskSpec& kind, const DataOptions& data);

}  // namespace longspan
