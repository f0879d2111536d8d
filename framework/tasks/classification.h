// A class for each text or image.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec classification_task();

}  // namespace longspan
