// Selects the device that a rank computes on.
#pragma once

#include "framework/config/run_options.h"
#include "framework/core/device.h"
#include "framework/distributed/communicator.h"
#include "framework/optim/precision_options.h"

namespace longspan {

// Returns the device that run.device selects. `local_rank` numbers the ranks of this machine, which
// are assigned its GPUs round-robin. Collective: `auto` uses GPUs only if every rank has one.
// Throws ConfigurationError if a GPU is required and missing.
Device run_device(const RunOptions& run,
                  const PrecisionOptions& precision,
                  const Communicator& world,
                  int local_rank);

}  // namespace longspan
