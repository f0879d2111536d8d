// Which examples share a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "framework/core/random.h"
#include "framework/core/range.h"
#include "framework/data/examples/examples.h"

namespace longspan {

// Examples, each at most once, batch after batch.
struct BatchPlan {
  std::vector<std::uint32_t> order;
  Ranges batches;  // of `order`, none of them empty
};

// The columns that an example needs, padding included; those without a target are left out.
using ColumnsOf = std::function<Lengths(std::int64_t example)>;

// Of examples 0 .. count - 1. Their columns are few numbers that many share; no batch has more than
// `budget` elements, rows times columns of the longest, where no example alone has. Examples are
// shuffled, gathered by their columns, given out when there are enough of them for some batches,
// and what is left at the end shares batches with the next longer ones; the order of the batches is
// shuffled. A function of the arguments alone.
BatchPlan shuffled_batches(std::int64_t count,
                           const ColumnsOf& columns_of,
                           std::int64_t budget,
                           const Random& place);

// The same without shuffling: the longest examples first, those of equal columns in their order.
// No batch has more than `most_rows` rows.
BatchPlan sorted_batches(std::int64_t count,
                         const ColumnsOf& columns_of,
                         std::int64_t budget,
                         std::int64_t most_rows = std::numeric_limits<std::int64_t>::max());

// Examples chosen at random, as a function of `place` alone, as many as make at most `batches` of
// such batches: a sample whose lengths are those of all.
BatchPlan sampled_batches(std::int64_t count,
                          const ColumnsOf& columns_of,
                          std::int64_t budget,
                          std::int64_t batches,
                          const Random& place);

// Tells one plan from another: of the examples of each batch and their order.
std::uint64_t fingerprint(const BatchPlan& plan);

// The examples of each batch.
std::vector<std::vector<std::size_t>> examples_of(const BatchPlan& plan);

}  // namespace longspan
