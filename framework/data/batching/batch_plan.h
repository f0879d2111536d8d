// Assignment of examples to batches.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "framework/core/random.h"
#include "framework/core/range.h"
#include "framework/data/batching/bucket_options.h"
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

// Shape of a global batch.
struct BatchShape {
  std::int64_t rows = 0;
  Lengths columns = {};

  friend bool operator==(const BatchShape&, const BatchShape&) = default;
};

// Returns the distinct shapes of a plan's batches.
std::vector<BatchShape> shapes_of(const BatchPlan& plan, const ColumnsOf& columns_of);

// Returns shapes that the options allow. One of them needs the most memory, for any cost ratio of
// source to target columns. Pairs therefore include short and long sources. `each`: ranks times
// micro-batches, by which rows are divided.
std::vector<BatchShape> shapes_of_budget(const BucketOptions& options,
                                         bool pairs,
                                         std::int64_t each);

// Returns a few of the shapes, such that fitting some of them in memory does not imply fitting the
// others. The shape with the most columns times rows comes first, then those that weight one side's
// columns more.
std::vector<BatchShape> largest_of(std::span<const BatchShape> shapes, std::int64_t each);

}  // namespace longspan
