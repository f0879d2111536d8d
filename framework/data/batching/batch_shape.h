// Shapes of batches, for memory planning.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/data/batching/batch_plan.h"
#include "framework/data/batching/bucket_options.h"
#include "framework/data/examples/examples.h"

namespace longspan {

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
