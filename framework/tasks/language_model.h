// Language modeling on parallel streams of a corpus.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec language_model_task();

}  // namespace longspan
