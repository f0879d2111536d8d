// Training data of separate examples, batched by length.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/batching/batch_plan.h"
#include "framework/data/batching/batch_rows.h"
#include "framework/data/source.h"

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

}  // namespace longspan
