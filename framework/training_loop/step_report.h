// Reports the metrics of a step.
#pragma once

#include <optional>

#include "framework/training_loop/run_history.h"

namespace longspan {

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

}  // namespace longspan
