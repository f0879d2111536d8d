// Reinforcement learning in environments.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec reinforcement_learning_task();

}  // namespace longspan
