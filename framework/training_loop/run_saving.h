// Saving a run: its checkpoints, and its profile.
#pragma once

#include "framework/training_loop/run_history.h"

namespace longspan {

// All are collective, and what training waits for them counts as saving.

// Before anything is written or removed by the name of the run's directory: who removes that may
// put another there. Throws DataError on the ranks where it is no longer the run's.
void keep_directory(const TrainingContext& run);

// Saves the state after the last step, or starts to `beside` the training. `loss` as
// CheckpointSaver asks for it. Whether it is saved, or will be.
bool save_run(TrainingContext& run,
              const RunHistory& history,
              const CheckpointSaver::Loss& loss,
              bool beside);
// Returns when what was started is saved.
void wait_for_save(TrainingContext& run);
// Once what was saved last has shown to be good for them.
void remove_older(TrainingContext& run);

// What was recorded so far; nothing where nothing was.
void write_profile(TrainingContext& run);

}  // namespace longspan
