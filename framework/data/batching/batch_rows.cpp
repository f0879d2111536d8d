#include "framework/data/batching/batch_rows.h"

#include <algorithm>
#include <utility>

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

ExampleLengths::ExampleLengths(std::shared_ptr<const Examples> examples,
                               const BucketOptions& options,
                               EachCounts each_counts)
    : examples_(std::move(examples)), options_(options), each_counts_(each_counts) {
  if (!examples_->can_be_cut()) options_.longest = 0;
  for (std::int64_t i = 0; i < examples_->size(); ++i) {
    const Lengths tokens = examples_->lengths(i);
    if (is_too_long(tokens)) {
      if (options_.too_long == OverlongPolicy::error)
        throw DataError(
            "{}: expected at most data.max_length = {} tokens, found {}; set "
            "data.overlong_examples to truncate or skip",
            examples_->place(i),
            options_.longest,
            std::max(tokens.source, tokens.target));
      ++too_long_;
    }
    if (columns(i).total() > options_.batch_tokens) require_room(i);
  }
  if (skips_overlong() && too_long_ == examples_->size())
    throw DataError("{}: all {} examples exceed data.max_length = {} tokens",
                    examples_->path(),
                    too_long_,
                    options_.longest);
}

void ExampleLengths::require_room(std::int64_t example) const {
  throw DataError(
      "{}: expected at most data.global_batch_tokens = {} tokens with padding, found {}",
      examples_->place(example),
      options_.batch_tokens,
      columns(example).total());
}

bool ExampleLengths::is_too_long(const Lengths& tokens) const {
  return options_.longest > 0 && std::max(tokens.source, tokens.target) > options_.longest;
}

bool ExampleLengths::skips_overlong() const {
  return options_.too_long == OverlongPolicy::skip && each_counts_ == EachCounts::no;
}

Lengths ExampleLengths::columns(std::int64_t example) const {
  const Lengths tokens = examples_->lengths(example);
  if (skips_overlong() && is_too_long(tokens)) return {};
  const auto padded = [this](std::int64_t count, std::int64_t extra) {
    // Sampled segmentations are longer than the default: reserve a quarter more.
    if (options_.subword_sampling > 0 && each_counts_ == EachCounts::no) count += count / 4;
    if (options_.longest > 0) count = std::min(count, options_.longest);
    const std::int64_t multiple = options_.length_multiple;
    return (count + extra + multiple - 1) / multiple * multiple;
  };
  return {tokens.source > 0 ? padded(tokens.source, 0) : 0,
          padded(tokens.target, examples_->extra_columns())};
}

std::string ExampleLengths::describe() const {
  if (too_long_ == 0) return "";
  return fmt::format("{}: {} of {} examples exceed data.max_length = {} tokens and are {}",
                     examples_->path(),
                     too_long_,
                     examples_->size(),
                     options_.longest,
                     skips_overlong() ? "skipped" : "truncated");
}

}  // namespace longspan
