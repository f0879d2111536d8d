#include "framework/data/batching/batch_rows.h"

#include <algorithm>

#include "framework/core/error.h"

namespace longspan {

std::vector<std::int64_t> rows_of_rank(std::span<const std::uint32_t> global,
                                       const BatchShard& division) {
  require(division.ranks >= 1 && division.rank >= 0 && division.rank < division.ranks &&
              division.accumulation >= 1,
          "invalid division of a batch: rank {} of {}, {} micro-batches",
          division.rank,
          division.ranks,
          division.accumulation);
  const std::int64_t multiple = division.ranks * division.accumulation;
  const std::int64_t each = (std::ssize(global) + multiple - 1) / multiple * division.accumulation;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(each), -1);
  for (std::int64_t i = 0; i < each; ++i) {
    const std::int64_t row = division.rank * each + i;
    if (row < std::ssize(global))
      rows[static_cast<std::size_t>(i)] = global[static_cast<std::size_t>(row)];
  }
  return rows;
}

Batch read_rows(const ExampleLengths& lengths,
                std::span<const std::uint32_t> global,
                const BatchShard& division,
                const Random& place,
                double sampling,
                bool with_left_out) {
  Lengths widest;
  for (const std::uint32_t example : global) {
    const Lengths columns = lengths.columns(example);
    widest = {std::max(widest.source, columns.source), std::max(widest.target, columns.target)};
  }
  const std::vector<std::int64_t> rows = rows_of_rank(global, division);
  Batch batch = lengths.examples().read({.examples = rows,
                                         .columns = widest,
                                         .longest = lengths.options().longest,
                                         .with_left_out = with_left_out,
                                         .place = place,
                                         .subword_sampling = sampling});
  batch.first_row = division.rank * std::ssize(rows);
  batch.resets_state = true;
  return batch;
}

}  // namespace longspan
