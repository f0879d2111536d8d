// What a run knows of its past, and what its checkpoints have of it.
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
  std::int64_t first_step = 0;  // the one behind which it began here
  SavedLosses losses = {};
  std::optional<BestTracker> best = {};  // with checkpoint.best_metric
  SkippedData skipped = {};
  Scalars imported = {};  // import_scalars

  // Of checkpoint.best_metric, so far.
  std::optional<std::int64_t> best_step() const;

  // Takes what a step has given, and whether its validation is the best so far. Where that has not
  // the figure of checkpoint.best_metric the log says so, once.
  bool add(std::int64_t step,
           double loss,
           const std::optional<Measurement>& validation,
           const Log& log);
};

// Collective. All that a run goes on from.
TrainingState state_of(const TrainingContext& run, const RunHistory& history);

// Collective. Takes it from a checkpoint that check_resumable has judged; the best step and the
// data that are skipped depend on the run's directory, and are left to begin_run.h.
void restore(TrainingContext& run, RunHistory& history, const Checkpoint& checkpoint);

}  // namespace longspan
