// Assignment of examples to batches.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "framework/core/random.h"
#include "framework/core/range.h"
#include "framework/data/examples/examples.h"

namespace longspan {

// Examples in batch order, each at most once.
struct BatchPlan {
  std::vector<std::uint32_t> order;
  Ranges batches;  // ranges of `order`, none empty
};

// Returns the columns of an example, padding included. Examples without a target are skipped.
using ColumnsOf = std::function<Lengths(std::int64_t example)>;

// Returns shuffled batches of examples 0 .. count - 1. The columns should have few distinct values.
// A batch has at most `budget` elements (rows times the longest columns), unless a single example
// exceeds it. Examples are shuffled, bucketed by columns, and emitted once a bucket fills some
// batches. Leftovers join the batches of the next longer bucket. The batches are then shuffled.
// Depends only on the arguments.
BatchPlan shuffled_batches(std::int64_t count,
                           const ColumnsOf& columns_of,
                           std::int64_t budget,
                           const Random& place);

// Returns batches without shuffling: the longest examples first, and those of equal columns in
// their original order. No batch has more than `max_rows` rows.
BatchPlan sorted_batches(std::int64_t count,
                         const ColumnsOf& columns_of,
                         std::int64_t budget,
                         std::int64_t max_rows = std::numeric_limits<std::int64_t>::max());

// Returns at most `batches` such batches of randomly chosen examples. The sample has the length
// distribution of all examples. It depends only on the arguments, with `place` as the random key.
BatchPlan sampled_batches(std::int64_t count,
                          const ColumnsOf& columns_of,
                          std::int64_t budget,
                          std::int64_t batches,
                          const Random& place);

// Returns a hash of the examples of each batch and their order.
std::uint64_t fingerprint(const BatchPlan& plan);

// Returns the examples of each batch.
std::vector<std::vector<std::size_t>> examples_of(const BatchPlan& plan);

}  // namespace longspan
