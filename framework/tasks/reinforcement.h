// Acting in environments, learnt from what actions are rewarded with.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskKind reinforcement_task();

}  // namespace longspan
