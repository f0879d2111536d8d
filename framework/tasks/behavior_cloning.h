// The right action in environments where it depends on what was seen long before.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec behavior_cloning_task();

}  // namespace longspan
