// Training data of separate examples, batched by their length.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/batching/batch_plan.h"
#include "framework/data/batching/batch_rows.h"
#include "framework/data/batching/batch_shape.h"
#include "framework/data/source.h"

namespace longspan {

// An epoch is each example once, but those that are left out as too long, in an order that is a
// function of (seed, epoch) alone: the global batches are the same on every layout. The rows of a
// batch are divided over the data ranks, after empty rows at its end where the division would have
// a rest; each batch is fresh. What is kept of an epoch is 4 bytes an example.
class BucketedSource final : public BatchSource {
 public:
  // Throws as ExampleLengths does.
  BucketedSource(std::shared_ptr<const Examples> examples,
                 const BucketOptions& options,
                 std::uint64_t seed,
                 const BatchShard& division);

  Batch next() override;

  // One row for all ranks: (epoch, batches of it that were read, batches that it has, fingerprint
  // of its plan).
  Tensor cursors() const override;
  CursorRows cursor_rows() const override { return {.begin = 0, .total = 1, .shared = true}; }
  // Where the epoch has other batches by now, as with another seed or data.global_batch_tokens, it
  // goes on at the beginning of the next one: what is left of this one cannot be told from what was
  // read. Those of an older version are (epoch, batches of it that were read): it had other
  // batches.
  void restore(const Tensor& cursors) override;
  std::string restore_warning() const override { return restored_; }

  const ExampleLengths& lengths() const { return lengths_; }
  // Of the epoch that the next batch is of, or where that begins one, of the one before.
  std::int64_t batches_of_epoch() const { return std::ssize(plan_.batches); }
  std::int64_t epoch() const { return epoch_; }
  // Of the batches of that epoch.
  std::vector<BatchShape> shapes() const;

 private:
  Random place_of(std::int64_t epoch) const;
  void begin(std::int64_t epoch);

  ExampleLengths lengths_;
  std::uint64_t seed_;
  BatchShard division_;
  BatchPlan plan_;  // of epoch_
  std::uint64_t fingerprint_ = 0;
  std::int64_t epoch_ = 0;
  std::int64_t next_ = 0;
  std::string restored_;
};

}  // namespace longspan
