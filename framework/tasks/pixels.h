// The values of images, one after another.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskKind pixels_task();

}  // namespace longspan
