// Checks labeled text data for a task.
#pragma once

#include <string>

#include "framework/tasks/labelled_task.h"

namespace longspan {

// For LabeledTaskSpec::problem, for text files with labels in their lines.
std::string labelled_text_problem(const LabeledTaskSpec& kind, const DataOptions& data);

}  // namespace longspan
