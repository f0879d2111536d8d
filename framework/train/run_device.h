// What a rank of a run computes on.
#pragma once

#include "framework/core/device.h"
#include "framework/train/run_options.h"

namespace longspan {

// As run.device says; `local_rank` counts the ranks of this machine, which take its GPUs in turn.
// Throws ConfigurationError where a GPU is demanded and there is none.
Device run_device(const RunOptions& run, const PrecisionOptions& precision, int local_rank);

}  // namespace longspan
