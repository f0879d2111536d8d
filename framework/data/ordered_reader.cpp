#include "framework/data/ordered_reader.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

OrderedReader::OrderedReader(std::shared_ptr<const Examples> examples,
                             const BucketOptions& options,
                             const BatchDivision& division)
    : lengths_(std::move(examples), options, EachCounts::yes),
      division_(division),
      plan_(sorted_batches(
          lengths_.examples().size(),
          [this](std::int64_t example) { return lengths_.columns(example); },
          options.batch_tokens)) {}

Batch OrderedReader::next() {
  require(!done(), "{}: all {} batches were read", lengths_.examples().path(), batches());
  const Range& range = plan_.batches[static_cast<std::size_t>(next_)];
  const auto examples =
      std::span<const std::uint32_t>(plan_.order)
          .subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.count()));
  Batch batch = read_rows(lengths_, examples, division_, Random(0), 0);
  const std::vector<std::int64_t> rows = rows_of_rank(examples, division_);
  const Tensor index = filled({std::ssize(rows)}, -1);
  std::ranges::copy(rows, index.span<std::int64_t>().begin());
  batch.fields.emplace("index", index);
  batch.place = fmt::format("at place {} of {}", next_, batches());
  ++next_;
  return batch;
}

}  // namespace longspan
