// History of a run, as its checkpoints store it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/training_loop/best_step.h"
#include "framework/training_loop/saved_losses.h"
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

}  // namespace longspan
