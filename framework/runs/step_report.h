// What a run tells of a step.
#pragma once

#include <optional>

#include "framework/runs/run_history.h"

namespace longspan {

// On the console; where the step `is_logged` in the log too.
void show_progress(RunParts& run, const StepResult& result, bool is_logged);

// To the program that has started the run, where it wants to know.
void tell_program(const RunParts& run,
                  const RunHistory& history,
                  const StepResult& result,
                  const std::optional<Measurement>& validation);

// Collective. To metrics.jsonl and all that metrics ask for; rates and times since the last record.
void record_step(RunParts& run,
                 const RunHistory& history,
                 const StepResult& result,
                 const std::optional<Measurement>& validation);

}  // namespace longspan
