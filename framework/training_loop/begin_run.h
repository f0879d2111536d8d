// Starts a run: resumes from a checkpoint, or starts a new run.
#pragma once

#include "framework/training_loop/run_history.h"

namespace longspan {

// Resumes the run from the checkpoint that checkpoint.resume_from resolves to, or starts a new run.
// Prepares the run's files for the first step and logs the outcome. Collective. Throws the same
// error on every rank if that fails.
RunHistory resume_or_start(TrainingContext& run);

}  // namespace longspan
