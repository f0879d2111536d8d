// A class for each text.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskKind classification_task();

}  // namespace longspan
