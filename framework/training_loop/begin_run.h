// Where a run begins: at a checkpoint, or anew.
#pragma once

#include "framework/training_loop/run_history.h"

namespace longspan {

// Collective. Fills the run with what checkpoint.resume_from means, or begins a new one, and makes
// its files ready for the first step; the log says all of it. Throws the same on every rank where
// that cannot be.
RunHistory resume_or_start(TrainingContext& run);

}  // namespace longspan
