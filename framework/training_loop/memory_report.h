// Memory of a run: a table, and advice when it runs out.
#pragma once

#include <cstdint>
#include <string>

#include "framework/core/allocator.h"
#include "framework/planning/plan.h"
#include "framework/training_loop/log.h"

namespace longspan {

// Peak (VmHWM) and current (VmRSS) physical memory of this process, in bytes.
struct ProcessMemory {
  std::int64_t peak = 0;
  std::int64_t now = 0;
};
ProcessMemory process_memory();

// Peak bytes of each tag, and what the allocator holds beyond the most that were in use at once.
// `program`: memory of the process before the run allocated anything (code and libraries). Their
// sum is the known part of the process's memory.
struct MemoryUsage {
  MemoryReport report;
  std::int64_t program = 0;

  std::int64_t known() const { return program + report.reserved; }
};

// Returns, for example, "weights 76.1 MB, gradients 76.1 MB, ...".
std::string memory_text(const MemoryUsage& account);
// Logs the usage with the process's own peak.
void log_memory(const Log& log, const MemoryUsage& account);

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
