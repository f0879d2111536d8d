// What a run that does not fit in memory is told.
#pragma once

#include <string>

#include "framework/core/out_of_memory.h"
#include "framework/planning/plan.h"

namespace longspan {

// "a rank of this run needs 1.25 GB (weights ...)".
std::string needs(const StepPlan& plan);
// The keys that would help where a rank has only `there` bytes: a clause.
std::string memory_advice(const StepPlan& plan,
                          double there,
                          const DataSizes& ids,
                          const Reconfigure& reconfigure);

// Collective over the ranks of a run. Throws ConfigurationError, the same on all, when the ranks of
// a machine or a GPU need more memory than it has; the sentence names the keys that would help.
void check_memory_fits(const RunConfig& settings,
                       const ProcessMesh& mesh,
                       const Device& device,
                       int local_ranks,
                       const DataSizes& ids,
                       const Reconfigure& reconfigure);

// After a run of that many ranks has ended so: what a rank needs by the plan, and what would help,
// to be added to the sentence. Empty where no plan can be made. Not collective: ranks that wait for
// this one end when it does.
std::string advice_after(const OutOfMemory& error,
                         const RunConfig& settings,
                         int ranks,
                         const Reconfigure& reconfigure);

}  // namespace longspan
