// Every example once, or a sample of them, for measuring and for producing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framework/data/batching/batch_plan.h"
#include "framework/data/batching/batch_rows.h"

namespace longspan {

// A part of the examples.
struct ExampleSample {
  std::int64_t batches = 0;  // at most so many; 0: of all examples
  std::uint64_t seed = 1;
};

// How much of the examples a measurement is of.
struct ExampleCoverage {
  std::int64_t all = 0;
  std::int64_t read = 0;
  std::int64_t truncated = 0;  // examples that were read and cut
  std::int64_t longest = 0;    // tokens after which they were

  // Of 1.
  double fraction() const { return static_cast<double>(read) / static_cast<double>(all); }
  // "; 120 of 480 examples (25%); 3 cut after data.max_length = 64 tokens"; "" where all were read
  // whole.
  std::string text() const;
};

// One pass in which each example is a row exactly once, the longest first, in batches of
// data.global_batch_tokens. With a sample of fewer batches than that takes, the pass is over
// examples chosen at random: the same ones on every layout, short and long ones as all examples
// have them. Beside the fields of its kind a batch has `index` [rows] i64: the number of the
// example in its file, -1 of an empty row. Examples that are too long are cut, also where training
// would leave them out. Nothing else is drawn.
class SequentialReader {
 public:
  // Throws as ExampleLengths does.
  SequentialReader(std::shared_ptr<const Examples> examples,
                   const BucketOptions& options,
                   const BatchShard& division,
                   const ExampleSample& sample = {});

  // Equal on all ranks.
  std::int64_t batches() const { return std::ssize(plan_.batches); }
  bool done() const { return next_ == batches(); }
  // Of all ranks, so far.
  std::size_t examples_read() const;
  // Throws Failure when done.
  Batch next();
  // Back to the first batch.
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
