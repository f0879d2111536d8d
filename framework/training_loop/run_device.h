// What a rank of a run computes on.
#pragma once

#include "framework/config/run_options.h"
#include "framework/core/device.h"
#include "framework/distributed/communicator.h"
#include "framework/optim/precision_options.h"

namespace longspan {

// As run.device says; `local_rank` counts the ranks of this machine, which take its GPUs in turn.
// Collective: `auto` takes GPUs only where every rank has one. Throws ConfigurationError where a
// GPU is demanded and there is none.
Device run_device(const RunOptions& run,
                  const PrecisionOptions& precision,
                  const Communicator& world,
                  int local_rank);

}  // namespace longspan
