// A run that diverges goes back to what it saved last and passes over the data on which it did, as
// often as training.max_rollbacks allows.
#pragma once

#include "framework/core/error.h"
#include "framework/training_loop/run_history.h"

namespace longspan {

// Whether the run has saved a step since it began.
bool has_saved(const TrainingContext& run, const RunHistory& history);

// Collective. The batch of the next step, behind the data that is to be passed over before it.
Batch next_batch(TrainingContext& run, const RunHistory& history);

// Collective, after the error. Ends what is under way, and writes into the run's directory what is
// to be passed over when it begins again: from the last step that was not skipped (`last_update`)
// to that of the error. Where it may not go back, throws the error with what can be gone on from.
void roll_back(TrainingContext& run,
               RunHistory& history,
               const DivergedError& error,
               std::int64_t last_update);

}  // namespace longspan
