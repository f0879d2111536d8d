// Saves a run: its checkpoints and its profile.
#pragma once

#include "framework/training_loop/run_history.h"

namespace longspan {

// All functions are collective. The time that training waits for them counts as saving.

// Checks the run's directory before anything in it is written or removed by name, as a user who
// removed it may have replaced it. Throws DataError on every rank where it is no longer the run's.
void check_directory(const TrainingContext& run);

// Saves the state after the last step, or, if the last argument is true, starts to save it in the
// background. `loss` must satisfy CheckpointSaver::Loss. Returns whether the state is saved or will
// be.
bool save_run(TrainingContext& run,
              const RunHistory& history,
              const CheckpointSaver::Loss& loss,
              bool in_background);
// Returns when the save that was started is complete.
void wait_for_save(TrainingContext& run);
// Removes older checkpoints. Call it once the last save has shown that its state is good.
void remove_older(TrainingContext& run);

// Writes the profile recorded so far; does nothing if nothing was recorded.
void write_profile(TrainingContext& run);

}  // namespace longspan
