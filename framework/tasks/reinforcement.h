// Acting in environments, learnt from what actions are rewarded with.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec reinforcement_learning_task();

}  // namespace longspan
