// What a run tells of a step.
#pragma once

#include <optional>

#include "framework/training_loop/run_history.h"

namespace longspan {

// On the console; where the step `is_logged` in the log too.
void show_progress(TrainingContext& run, const StepResult& result, bool is_logged);

// To the program that has started the run, where it wants to know.
void call_step_hook(const TrainingContext& run,
                    const RunHistory& history,
                    const StepResult& result,
                    const std::optional<Measurement>& validation);

// Collective. To metrics.jsonl and all that metrics ask for; rates and times since the last record.
void record_step(TrainingContext& run,
                 const RunHistory& history,
                 const StepResult& result,
                 const std::optional<Measurement>& validation);

}  // namespace longspan
