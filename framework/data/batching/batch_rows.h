// Rows of a global batch that one data rank reads, and the lengths of their examples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/data/batching/bucket_options.h"
#include "framework/data/examples/examples.h"

namespace longspan {

// Policy for overlong examples. Training (`no`) may skip them; evaluation (`yes`) counts each
// example and truncates them instead.
enum class EachCounts : bool { no, yes };

class ExampleLengths {
 public:
  // Checks the length of each example. Throws DataError, which names the first offender, for an
  // overlong example where data.overlong_examples is error. Throws it also for an example that
  // exceeds data.global_batch_tokens, and when no example remains.
  ExampleLengths(std::shared_ptr<const Examples> examples,
                 const BucketOptions& options,
                 EachCounts each_counts);

  // Returns the padded columns of an example. An example without target columns is skipped.
  Lengths columns(std::int64_t example) const;
  // Returns whether it has more than data.max_length tokens.
  bool is_too_long(std::int64_t example) const { return is_too_long(examples_->lengths(example)); }
  // Returns the number of overlong examples.
  std::int64_t too_long() const { return too_long_; }
  // Returns "FILE: 3 of 100 examples have more than data.max_length = 64 tokens and are cut", or ""
  // where no example is overlong.
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

struct BatchShard {
  int rank = 0;
  int ranks = 1;
  std::int64_t accumulation = 1;  // micro-batches of a step, all with equally many rows
};

// Returns the examples of this rank's rows. A global batch is padded with empty rows to n, a
// multiple of the divisor. Data rank r reads rows [r * n / ranks, (r + 1) * n / ranks).
std::vector<std::int64_t> rows_of_rank(std::span<const std::uint32_t> global,
                                       const BatchShard& division);

// Returns this rank's rows of a global batch, with the columns of the longest of all its rows.
// `place`, `sampling` and `with_left_out` are those of BatchRequest.
Batch read_rows(const ExampleLengths& lengths,
                std::span<const std::uint32_t> global,
                const BatchShard& division,
                const Random& place,
                double sampling,
                bool with_left_out = false);

}  // namespace longspan
