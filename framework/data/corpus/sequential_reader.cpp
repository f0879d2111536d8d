#include "framework/data/corpus/sequential_reader.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

SequentialReader::SequentialReader(std::shared_ptr<const Examples> examples,
                                   const BucketOptions& options,
                                   const BatchShard& division,
                                   const ExampleSample& sample)
    : lengths_(std::move(examples), options, EachCounts::yes), division_(division) {
  const std::int64_t count = lengths_.examples().size();
  const ColumnsOf columns_of = [this](std::int64_t i) { return lengths_.columns(i); };
  plan_ = sample.batches == 0 ? sorted_batches(count, columns_of, options.batch_tokens)
                              : sampled_batches(count,
                                                columns_of,
                                                options.batch_tokens,
                                                sample.batches,
                                                Random(sample.seed).child("validation examples"));
}

std::string ExampleCoverage::text() const {
  std::string text;
  if (read < all) text += fmt::format("; {} of {} examples ({:.3g}%)", read, all, 100 * fraction());
  if (truncated > 0)
    text += fmt::format("; {} truncated to data.max_length = {} tokens", truncated, longest);
  return text;
}

ExampleCoverage SequentialReader::coverage() const {
  return {.all = lengths_.examples().size(),
          .read = std::ssize(plan_.order),
          .truncated = std::ranges::count_if(
              plan_.order, [this](std::int64_t example) { return lengths_.is_too_long(example); }),
          .longest = lengths_.options().longest};
}

std::size_t SequentialReader::examples_read() const {
  return next_ == 0
             ? 0
             : static_cast<std::size_t>(plan_.batches[static_cast<std::size_t>(next_ - 1)].end);
}

Batch SequentialReader::next() {
  require(!done(), "{}: all {} batches have been read", lengths_.examples().path(), batches());
  const Range& range = plan_.batches[static_cast<std::size_t>(next_)];
  const auto examples =
      std::span<const std::uint32_t>(plan_.order)
          .subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.count()));
  Batch batch = read_rows(lengths_, examples, division_, Random(0), 0, true);
  const std::vector<std::int64_t> rows = rows_of_rank(examples, division_);
  const Tensor index = full_tensor({std::ssize(rows)}, -1);
  std::ranges::copy(rows, index.span<std::int64_t>().begin());
  batch.fields.emplace("index", index);
  batch.place = fmt::format("at position {} of {}", next_, batches());
  ++next_;
  return batch;
}

}  // namespace longspan
