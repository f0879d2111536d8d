#include "framework/data/batching/bucketed_source.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

BucketedSource::BucketedSource(std::shared_ptr<const Examples> examples,
                               const BucketOptions& options,
                               std::uint64_t seed,
                               const BatchShard& division)
    : lengths_(std::move(examples), options, EachCounts::no), seed_(seed), division_(division) {
  begin(0);
}

Random BucketedSource::epoch_random(std::int64_t epoch) const {
  return Random(seed_).child("data").child(static_cast<std::uint64_t>(epoch));
}

void BucketedSource::begin(std::int64_t epoch) {
  plan_ = shuffled_batches(
      lengths_.examples().size(),
      [this](std::int64_t example) { return lengths_.columns(example); },
      lengths_.options().batch_tokens,
      epoch_random(epoch));
  fingerprint_ = fingerprint(plan_);
  epoch_ = epoch;
  next_ = 0;
}

Batch BucketedSource::next() {
  if (next_ == batches_of_epoch()) begin(epoch_ + 1);
  const Range& range = plan_.batches[static_cast<std::size_t>(next_)];
  const auto examples =
      std::span<const std::uint32_t>(plan_.order)
          .subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.count()));
  Batch batch = read_rows(lengths_,
                          examples,
                          division_,
                          epoch_random(epoch_).child("subwords"),
                          lengths_.options().subword_sampling);
  batch.place = fmt::format("at position {} of epoch {}", next_, epoch_);
  ++next_;
  return batch;
}

std::vector<BatchShape> BucketedSource::shapes() const {
  return shapes_of(plan_, [this](std::int64_t example) { return lengths_.columns(example); });
}

Tensor BucketedSource::cursors() const {
  const std::array<std::int64_t, 4> state = {
      epoch_, next_, batches_of_epoch(), static_cast<std::int64_t>(fingerprint_)};
  return Tensor::from<std::int64_t>(state, {1, 4}, Device::cpu(), MemoryTag::workspace);
}

void BucketedSource::restore(const Tensor& cursors) {
  const bool is_old = cursors.shape() == Shape{1, 2};
  if (cursors.dtype() != DType::i64 || (!is_old && cursors.shape() != Shape{1, 4}))
    throw DataError("expected data positions of shape [1, 4] and dtype i64, found shape {}",
                    cursors.shape().to_string());
  const auto values = cursors.span<std::int64_t>();
  const std::int64_t epoch = values[0];
  const std::int64_t batches = values[1];
  restored_.clear();
  if (epoch >= 0 && epoch != epoch_) begin(epoch);
  // An older version stored neither value and batched by another rule.
  const std::optional<std::int64_t> had = is_old ? std::nullopt : std::optional(values[2]);
  if (epoch < 0 || batches < 0 || (had && batches > *had))
    throw DataError(
        "{}: the checkpoint resumes at batch {} of epoch {}, but an epoch has {} batches; restore "
        "the data, data.global_batch_tokens and run.seed of the checkpoint",
        lengths_.examples().path(),
        batches,
        epoch,
        had.value_or(batches_of_epoch()));
  next_ = batches;
  if (batches == 0) return;
  if (had && static_cast<std::uint64_t>(values[3]) == fingerprint_) return;
  begin(epoch + 1);
  if (batches == had) return;
  restored_ = fmt::format(
      "{}: batches differ from those of the checkpoint (other data, run.seed, "
      "data.global_batch_tokens, data.max_length, data.overlong_examples, data.pad_to_multiple_of, "
      "data.tokenizer.sampling_alpha or version of longspan); resuming at the start of epoch {}, "
      "skipping the rest of epoch {} after {}{} batches",
      lengths_.examples().path(),
      epoch + 1,
      epoch,
      batches,
      had ? fmt::format(" of {}", *had) : "");
}

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
