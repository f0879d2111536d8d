// Measuring a run on the validation text.
#pragma once

#include <optional>

#include "framework/training_loop/training_context.h"

namespace longspan {

// Collective. What the weights that are kept give there, which the log says too; with a finite
// loss the samples that metrics ask for are taken for the next record. Nothing where the task has
// no such text.
std::optional<Measurement> validate(TrainingContext& run);

}  // namespace longspan
