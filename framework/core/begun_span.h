// A span of a timeline that is not over yet, for what is begun here and ended elsewhere.
#pragma once

#include <cstdint>

namespace longspan {

// When something began that goes on beside what its thread does, in which layer, and the recording
// that it belongs to, 0 for none.
struct OpenSpan {
  std::int64_t begin = 0;
  std::uint64_t recording = 0;
  std::uint32_t layer = 0;
};

}  // namespace longspan
