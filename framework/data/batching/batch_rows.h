// Rows of a global batch that one data rank reads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/data/batching/batch_lengths.h"

namespace longspan {

struct BatchShard {
  int rank = 0;
  int ranks = 1;
  std::int64_t accumulation = 1;  // micro-batches of a step, all with equally many rows
};

// Returns the examples of this rank's rows. A global batch is padded with empty rows to n, a
// multiple of the divisor. Data rank r reads rows [r * n / ranks, (r + 1) * n / ranks).
std::vector<std::int64_t> rows_of_rank(std::span<const std::uint32_t> global,
                                       const BatchShard& division);

// Returns this rank's rows of a global batch, with the columns of the longest of all its rows.
// `place`, `sampling` and `with_left_out` are those of BatchRequest.
Batch read_rows(const ExampleLengths& lengths,
                std::span<const std::uint32_t> global,
                const BatchShard& division,
                const Random& place,
                double sampling,
                bool with_left_out = false);

}  // namespace longspan
