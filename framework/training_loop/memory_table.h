// Allocated bytes by purpose, with the memory use that the system reports.
#pragma once

#include <cstdint>
#include <string>

#include "framework/core/allocator.h"
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

}  // namespace longspan
