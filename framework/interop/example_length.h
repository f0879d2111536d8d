// Maximum example length of a model with a fixed number of positions.
#pragma once

#include <fmt/format.h>

#include "framework/interop/architecture.h"

namespace longspan {

// Adds data.max_length. Padded lengths are multiples of 8 and include one extra token.
inline void add_example_length(std::int64_t positions, ModelSettings& settings) {
  const std::int64_t multiple = positions >= 8 ? 8 : 1;
  settings.emplace_back(
      "data.max_length",
      fmt::format("{}", std::max<std::int64_t>(1, positions / multiple * multiple - 1)));
  if (multiple == 1) settings.emplace_back("data.pad_to_multiple_of", "1");
}

}  // namespace longspan
