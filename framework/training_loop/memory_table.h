// Bytes by what they are used for, beside what the system counts.
#pragma once

#include <cstdint>
#include <string>

#include "framework/core/allocator.h"
#include "framework/training_loop/log.h"

namespace longspan {

// The most bytes of physical memory this process has held (VmHWM), and those it holds now (VmRSS).
struct ProcessMemory {
  std::int64_t peak = 0;
  std::int64_t now = 0;
};
ProcessMemory process_memory();

// The most bytes of each tag, what the allocator keeps beyond the most that were in use at once,
// and `program`: what the process held before the run made anything (its code, its libraries and
// theirs). Their sum is what is known of the process's memory.
struct MemoryUsage {
  MemoryReport report;
  std::int64_t program = 0;

  std::int64_t known() const { return program + report.reserved; }
};

// "weights 76.1 MB, gradients 76.1 MB, ...".
std::string memory_text(const MemoryUsage& account);
// The account beside the process's own peak.
void log_memory(const Log& log, const MemoryUsage& account);

}  // namespace longspan
