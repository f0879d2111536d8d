// How large batches of examples are: for plans.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/data/batching/batch_plan.h"
#include "framework/data/batching/bucket_options.h"
#include "framework/data/examples/examples.h"

namespace longspan {

// Of a global batch.
struct BatchShape {
  std::int64_t rows = 0;
  Lengths columns = {};

  friend bool operator==(const BatchShape&, const BatchShape&) = default;
};

// Those of a plan's batches, each once.
std::vector<BatchShape> shapes_of(const BatchPlan& plan, const ColumnsOf& columns_of);

// Those that the keys allow and of which one takes most, whatever a column of a source takes beside
// one of a target: with short and with long sources, of pairs. `each`: ranks and parts of their
// rows, over which rows are divided.
std::vector<BatchShape> shapes_of_budget(const BucketOptions& options,
                                         bool pairs,
                                         std::int64_t each);

// A few of them, none of which a rank can be sure to have room for by having it for the others: the
// one of most columns times rows first, then those where columns of either side count more.
std::vector<BatchShape> largest_of(std::span<const BatchShape> shapes, std::int64_t each);

}  // namespace longspan
