// Sequence-to-sequence tasks (translation, pronunciation, summarization) on two parallel files.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec translation_task();

}  // namespace longspan
