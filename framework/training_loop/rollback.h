// Rolls a diverged run back to its last save and skips the data on which it diverged, up to
// training.max_rollbacks times.
#pragma once

#include "framework/core/error.h"
#include "framework/training_loop/run_history.h"

namespace longspan {

// Returns whether the run has saved a step since it started.
bool has_saved(const TrainingContext& run, const RunHistory& history);

// Returns the batch of the next step, after skipping the data listed before that step. Collective.
Batch next_batch(TrainingContext& run, const RunHistory& history);

// Handles a divergence: ends the save in progress and records in the run's directory the data to
// skip on restart. The range runs from after the last step that was not skipped (`last_update`) to
// the step of the error. If the run may not roll back, throws the error with the available starting
// points. Collective.
void roll_back(TrainingContext& run,
               RunHistory& history,
               const DivergedError& error,
               std::int64_t last_update);

}  // namespace longspan
