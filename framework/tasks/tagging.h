// Tagging: a tag for each word of a sentence.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec tagging_task();

}  // namespace longspan
