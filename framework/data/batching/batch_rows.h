// The rows of a global batch that one data rank reads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/data/batching/batch_lengths.h"

namespace longspan {

struct BatchShard {
  int rank = 0;
  int ranks = 1;
  std::int64_t accumulation = 1;  // micro-batches of a step, each of equally many rows
};

// The examples of this rank's rows: a global batch of n rows, empty ones at the end so that the
// division has no rest, of which data rank r has rows [r * n / ranks, (r + 1) * n / ranks).
std::vector<std::int64_t> rows_of_rank(std::span<const std::uint32_t> global,
                                       const BatchShard& division);

// This rank's rows of a global batch, with columns for the longest of all its rows. `place`,
// `sampling` and `with_left_out` as in BatchRequest.
Batch read_rows(const ExampleLengths& lengths,
                std::span<const std::uint32_t> global,
                const BatchShard& division,
                const Random& place,
                double sampling,
                bool with_left_out = false);

}  // namespace longspan
