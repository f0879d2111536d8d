// Bytes by what they are used for, beside what the system counts.
#pragma once

#include <cstdint>
#include <string>

#include "framework/core/allocator.h"
#include "framework/train/log.h"

namespace longspan {

// The most bytes of physical memory this process has held (VmHWM), and those it holds now (VmRSS).
struct ProcessMemory {
  std::int64_t peak = 0;
  std::int64_t now = 0;
};
ProcessMemory process_memory();

// "weights 76.1 MB, gradients 76.1 MB, ...; peak of the sum 812.3 MB".
std::string memory_text(const MemoryReport& report);
void log_memory(const Log& log, const Allocator& allocator);

}  // namespace longspan
