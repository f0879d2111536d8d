// Every example once, or a sample, for evaluation and generation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framework/data/batching/batch_plan.h"
#include "framework/data/batching/batch_rows.h"

namespace longspan {

// A random subset of the examples.
struct ExampleSample {
  std::int64_t batches = 0;  // maximum; 0: all examples
  std::uint64_t seed = 1;
};

// How many of the examples an evaluation covers.
struct ExampleCoverage {
  std::int64_t all = 0;
  std::int64_t read = 0;
  std::int64_t truncated = 0;  // examples read and truncated
  std::int64_t longest = 0;    // tokens kept of truncated examples

  // Returns the fraction of examples read, 0 to 1.
  double fraction() const { return static_cast<double>(read) / static_cast<double>(all); }
  // Returns "; 120 of 480 examples (25%); 3 cut after data.max_length = 64 tokens", or "" where all
  // were read untruncated.
  std::string text() const;
};

// One pass in which each example is a row exactly once, longest first, in batches of
// data.global_batch_tokens. A sample of fewer batches contains randomly chosen examples. It is
// equal on every layout and has the length distribution of all examples. A batch also has `index`
// [rows] i64: the number of the example in its file, -1 for an empty row. Overlong examples are
// truncated, even where training skips them. Nothing else is random.
class SequentialReader {
 public:
  // Throws as ExampleLengths.
  SequentialReader(std::shared_ptr<const Examples> examples,
                   const BucketOptions& options,
                   const BatchShard& division,
                   const ExampleSample& sample = {});

  // Number of batches, equal on all ranks.
  std::int64_t batches() const { return std::ssize(plan_.batches); }
  bool done() const { return next_ == batches(); }
  // Returns the examples read so far by all ranks.
  std::size_t examples_read() const;
  // Returns the next batch. Throws Failure when done.
  Batch next();
  // Restarts at the first batch.
  void rewind() { next_ = 0; }

  const ExampleLengths& lengths() const { return lengths_; }
  ExampleCoverage coverage() const;

 private:
  ExampleLengths lengths_;
  BatchShard division_;
  BatchPlan plan_;
  std::int64_t next_ = 0;
};

}  // namespace longspan
