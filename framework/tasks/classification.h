// Classification of documents or images.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec classification_task();

}  // namespace longspan
