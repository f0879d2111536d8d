// Limits the memory of a parser.
#pragma once

#include <cstddef>

namespace longspan::fuzzing {

// During its lifetime the process aborts if memory grows by more than 256 MiB plus the bytes of the
// input. No effect without the address sanitizer, whose hooks count allocations.
class MemoryBound {
 public:
  explicit MemoryBound(std::size_t input_bytes);
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;
  ~MemoryBound();
};

}  // namespace longspan::fuzzing
