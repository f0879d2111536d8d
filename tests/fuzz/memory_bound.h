// How much memory a parser may hold for an input.
#pragma once

#include <cstddef>

namespace longspan::fuzzing {

// While one lives, the process ends when it holds more than 256 MiB beyond what it held before and
// the bytes of the input. Without the address sanitizer, which tells of each allocation, nothing is
// bound.
class MemoryBound {
 public:
  explicit MemoryBound(std::size_t input_bytes);
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;
  ~MemoryBound();
};

}  // namespace longspan::fuzzing
