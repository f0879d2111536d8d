// How long examples are under the keys of a configuration.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framework/data/batching/bucket_options.h"
#include "framework/data/examples/examples.h"

namespace longspan {

// What is done with those that are too long: in training some may be left out; where each example
// counts, as in an evaluation, they are cut instead.
enum class EachCounts : bool { no, yes };

class ExampleLengths {
 public:
  // Looks at each example's length. Throws DataError, which names the first, for an example that is
  // too long where data.overlong_examples is error, and for one that data.global_batch_tokens does
  // not hold; and when none is left.
  ExampleLengths(std::shared_ptr<const Examples> examples,
                 const BucketOptions& options,
                 EachCounts each_counts);

  // With padding; no target: it is left out.
  Lengths columns(std::int64_t example) const;
  // Whether it has more than data.max_length tokens.
  bool is_too_long(std::int64_t example) const { return is_too_long(examples_->lengths(example)); }
  // How many are too long.
  std::int64_t too_long() const { return too_long_; }
  // "FILE: 3 of 100 examples have more than data.max_length = 64 tokens and are cut"; "" where
  // none.
  std::string describe() const;

  const Examples& examples() const { return *examples_; }
  const BucketOptions& options() const { return options_; }

 private:
  bool is_too_long(const Lengths& tokens) const;
  bool skips_overlong() const;
  void require_room(std::int64_t example) const;

  std::shared_ptr<const Examples> examples_;
  BucketOptions options_;
  EachCounts each_counts_;
  std::int64_t too_long_ = 0;
};

}  // namespace longspan
