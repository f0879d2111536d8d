// A sequence from another one: translation, pronunciation, summaries. Two files whose lines belong
// together.
#pragma once

#include "framework/tasks/task.h"

namespace longspan {

TaskSpec translation_task();

}  // namespace longspan
