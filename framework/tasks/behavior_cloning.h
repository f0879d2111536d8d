// Behavior cloning in environments with long-term dependencies.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec behavior_cloning_task();

}  // namespace longspan
