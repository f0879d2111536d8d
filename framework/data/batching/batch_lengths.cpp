#include "framework/data/batching/batch_lengths.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

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
            "{}: has {} tokens; data.max_length is {}: with data.overlong_examples: truncate or "
            "skip such examples are cut or left out",
            examples_->place(i),
            std::max(tokens.source, tokens.target),
            options_.longest);
      ++too_long_;
    }
    if (columns(i).total() > options_.batch_tokens) require_room(i);
  }
  if (skips_overlong() && too_long_ == examples_->size())
    throw DataError("{}: none of its {} examples has at most data.max_length = {} tokens",
                    examples_->path(),
                    too_long_,
                    options_.longest);
}

void ExampleLengths::require_room(std::int64_t example) const {
  throw DataError(
      "{}: takes {} tokens of a batch, padding included; data.global_batch_tokens = {} is below "
      "that",
      examples_->place(example),
      columns(example).total(),
      options_.batch_tokens);
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
    // What is drawn is longer than the usual: it has room for a quarter more.
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
  return fmt::format("{}: {} of {} examples have more than data.max_length = {} tokens and are {}",
                     examples_->path(),
                     too_long_,
                     examples_->size(),
                     options_.longest,
                     skips_overlong() ? "left out" : "cut");
}

}  // namespace longspan
