// Messages for a run that does not fit in memory.
#pragma once

#include <string>

#include "framework/core/out_of_memory.h"
#include "framework/planning/plan.h"

namespace longspan {

// Returns, for example, "a rank of this run needs 1.25 GB (weights ...)".
std::string needs(const StepPlan& plan);
// Returns a clause with the keys that reduce memory if a rank has only `there` bytes.
std::string memory_advice(const StepPlan& plan,
                          double there,
                          const DataSizes& ids,
                          const Reconfigure& reconfigure);

// Throws ConfigurationError, on all ranks of a run, if the ranks of a machine or a GPU need more
// memory than it has. The message names the keys that reduce memory. Collective.
void check_memory_fits(const RunConfig& settings,
                       const ProcessMesh& mesh,
                       const Device& device,
                       int local_ranks,
                       const DataSizes& ids,
                       const Reconfigure& reconfigure);

// Returns text to append to an OutOfMemory message of a run with that many ranks: the planned
// memory of a rank, and the keys that reduce it. Empty if no plan can be computed. Not collective:
// ranks that wait for this one end when it does.
std::string advice_after(const OutOfMemory& error,
                         const RunConfig& settings,
                         int ranks,
                         const Reconfigure& reconfigure);

}  // namespace longspan
