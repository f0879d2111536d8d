// An open span of a timeline, for asynchronous activity that ends elsewhere.
#pragma once

#include <cstdint>

namespace longspan {

// The begin of asynchronous activity, its layer, and its recording (0: none).
struct OpenSpan {
  std::int64_t begin = 0;
  std::uint64_t recording = 0;
  std::uint32_t layer = 0;
};

}  // namespace longspan
