// The parts of a run around its steps: start or resume, validate, report, roll back, end.
#pragma once

#include <optional>
#include <string>

#include "framework/core/error.h"
#include "framework/training_loop/run_history.h"
#include "framework/training_loop/training_context.h"

namespace longspan {

// Resumes the run from the checkpoint that checkpoint.resume_from resolves to, or starts a new run.
// Prepares the run's files for the first step and logs the outcome. Collective. Throws the same
// error on every rank if that fails.
RunHistory resume_or_start(TrainingContext& run);

// Measures the evaluation weights (Trainer::with_eval_weights) on the validation data, and logs the
// metrics. Unless the loss is non-finite, takes the samples that `metrics` requests for the next
// record. Returns nothing if the task has no validation data. Collective.
std::optional<Measurement> validate(TrainingContext& run);

// Shows the progress on the console, and in the log if the step `is_logged`.
void show_progress(TrainingContext& run, const StepResult& result, bool is_logged);

// Calls the step hook of the program that started the run, if it has set one.
void call_step_hook(const TrainingContext& run,
                    const RunHistory& history,
                    const StepResult& result,
                    const std::optional<Measurement>& validation);

// Writes metrics.jsonl and the other outputs of `metrics`; rates and times since the last record.
// Collective.
void record_step(TrainingContext& run,
                 const RunHistory& history,
                 const StepResult& result,
                 const std::optional<Measurement>& validation);

// How the training loop ended.
struct RunEnd {
  bool is_saved = false;         // the state after the last step is saved
  bool is_stopped = false;       // a stop request came before the last requested step
  std::string end_of_data = {};  // message of single-pass documents that ended
};

// Logs the end of the run. Returns `ok`, or `stopped` if a restart continues training. Throws
// DataError if the data ended first. Throws DivergedError if the last weights give no finite loss
// or gradient: then they are not saved, and a stopped run cannot resume from them.
ExitCode finish_run(const TrainingContext& run, const RunHistory& history, const RunEnd& end);

// Rolls a diverged run back to its last save and skips the data on which it diverged, up to
// training.max_rollbacks times.

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
