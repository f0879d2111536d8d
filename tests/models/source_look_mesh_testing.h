// Batches of pairs for models with cross-attention losses, one per step.
#pragma once

#include "tests/models/layouts_testing.h"
#include "tests/models/source_look_testing.h"

namespace longspan::testing {

// Pairs of unequal lengths, some without a source or a target.
inline Batch batch_of_pairs(const Case& c, int step, const StreamRange& range) {
  const std::vector<Lengths> all = {{5, 7}, {2, 3}, {0, 0}, {4, 1}, {0, 5}, {3, 6}};
  std::vector<Lengths> rows;
  Batch batch;
  for (const char* name : {"tokens", "cells", "linked", "rows"}) batch.counts[name] = 0;
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const Lengths lengths = all[static_cast<std::size_t>(row + 2 * step) % all.size()];
    rows.push_back(lengths);
    batch.counts["tokens"] += lengths.target;
    batch.counts["rows"] += lengths.target > 0 ? 1 : 0;
    batch.counts["cells"] += lengths.source * lengths.target;
  }
  batch.fields =
      pair_fields(rows, {c.segment, c.segment + 2}, static_cast<std::uint64_t>(step), range.begin);
  batch.counts["linked"] = add_links(batch.fields);
  batch.first_row = range.begin;
  batch.resets_state = true;
  batch.place = "in a test";
  return batch;
}

}  // namespace longspan::testing
