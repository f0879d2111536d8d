// Checks labeled text data for a task.
#pragma once

#include <string>

#include "framework/tasks/labeled_task.h"

namespace longspan {

// For LabeledTaskSpec::problem, for text files with labels in their lines.
std::string validate_labeled_text(const LabeledTaskSpec& kind, const DataOptions& data);

}  // namespace longspan
