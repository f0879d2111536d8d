// Separate examples batched by length: training data, and one pass for evaluation and generation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/batch.h"
#include "framework/data/batching/batch_plan.h"
#include "framework/data/batching/batch_rows.h"

namespace longspan {

// An epoch contains each example once, except skipped overlong ones. Its order depends only on
// (seed, epoch), so the global batches are equal on every layout. The rows of a batch are divided
// over the data ranks, after padding with empty rows to a multiple. Each batch resets the recurrent
// state. An epoch takes 4 bytes of memory per example.
class BucketedSource final : public BatchSource {
 public:
  // Throws as ExampleLengths.
  BucketedSource(std::shared_ptr<const Examples> examples,
                 const BucketOptions& options,
                 std::uint64_t seed,
                 const BatchShard& division);

  Batch next() override;

  // One row shared by all ranks: (epoch, batches read, batches of the epoch, fingerprint of its
  // plan).
  Tensor cursors() const override;
  CursorRows cursor_rows() const override { return {.begin = 0, .total = 1, .shared = true}; }
  // Restores the position. When the epoch's batches have changed, such as by another seed or
  // data.global_batch_tokens, it continues at the start of the next epoch. The unread examples of
  // the old epoch cannot be determined. Cursors of an older version are (epoch, batches read) of a
  // different batching rule.
  void restore(const Tensor& cursors) override;
  std::string restore_warning() const override { return restored_; }

  const ExampleLengths& lengths() const { return lengths_; }
  // Batches of the epoch of the next batch; at the end of an epoch, those of that epoch.
  std::int64_t batches_of_epoch() const { return std::ssize(plan_.batches); }
  std::int64_t epoch() const { return epoch_; }
  // Returns the shapes of the batches of that epoch.
  std::vector<BatchShape> shapes() const;

 private:
  Random epoch_random(std::int64_t epoch) const;
  void begin(std::int64_t epoch);

  ExampleLengths lengths_;
  std::uint64_t seed_;
  BatchShard division_;
  BatchPlan plan_;  // for epoch_
  std::uint64_t fingerprint_ = 0;
  std::int64_t epoch_ = 0;
  std::int64_t next_ = 0;
  std::string restored_;
};

// Every example once, or a sample, for evaluation and generation.

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
