// The next token of a text, of which the model reads several places at once as streams.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec language_model_task();

}  // namespace longspan
