// Autoregressive image modeling.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec image_generation_task();

}  // namespace longspan
