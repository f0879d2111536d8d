// History of a run, as its checkpoints store it, and its saves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/training_loop/best_step.h"
#include "framework/training_loop/skipped_data.h"
#include "framework/training_loop/training_context.h"

namespace longspan {

struct RunHistory {
  std::string id;
  std::int64_t first_step = 0;  // the step after which this process started
  SavedLosses losses = {};
  std::optional<BestTracker> best = {};  // with checkpoint.best_metric
  SkippedData skipped = {};
  Scalars imported = {};  // import_scalars

  // Best step so far by checkpoint.best_metric.
  std::optional<std::int64_t> best_step() const;

  // Adds the results of a step. Returns whether its validation is the best so far. Logs a warning,
  // once, if the validation lacks the metric of checkpoint.best_metric.
  bool add(std::int64_t step,
           double loss,
           const std::optional<Measurement>& validation,
           const Log& log);
};

// Returns everything that a run resumes from. Collective.
TrainingState state_of(const TrainingContext& run, const RunHistory& history);

// Restores that state from a checkpoint that passed check_resumable. Leaves the best step and the
// skipped data to run_phases.h, as they depend on the run's directory. Collective.
void restore(TrainingContext& run, RunHistory& history, const Checkpoint& checkpoint);

// Saves a run: its checkpoints and its profile.

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
