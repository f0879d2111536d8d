// Reads examples as training does.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "framework/data/examples/examples.h"

namespace longspan::fuzzing {

// Reads the first 8 examples, in full and truncated.
inline void read_rows(const Examples& examples) {
  std::vector<std::int64_t> rows(
      static_cast<std::size_t>(std::min<std::int64_t>(examples.size(), 8)));
  std::iota(rows.begin(), rows.end(), 0);
  Lengths columns;
  for (const std::int64_t row : rows) {
    const Lengths lengths = examples.lengths(row);
    columns.source = std::max(columns.source, lengths.source);
    columns.target = std::max(columns.target, lengths.target + examples.extra_columns());
  }
  examples.read({.examples = rows, .columns = columns});
  constexpr std::int64_t longest = 3;
  columns.source = std::min(columns.source, longest);
  columns.target = std::min(columns.target, longest + examples.extra_columns());
  if (examples.can_be_cut())
    examples.read({.examples = rows, .columns = columns, .longest = longest});
}

}  // namespace longspan::fuzzing
