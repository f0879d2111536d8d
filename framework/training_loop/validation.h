// Validates a run.
#pragma once

#include <optional>

#include "framework/training_loop/training_context.h"

namespace longspan {

// Measures the evaluation weights (Trainer::with_eval_weights) on the validation data, and logs the
// metrics. Unless the loss is non-finite, takes the samples that `metrics` requests for the next
// record. Returns nothing if the task has no validation data. Collective.
std::optional<Measurement> validate(TrainingContext& run);

}  // namespace longspan
