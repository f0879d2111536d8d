// Every example once, for measuring and for producing.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/data/batch_plan.h"
#include "framework/data/batch_rows.h"

namespace longspan {

// One pass in which each example is a row exactly once, the longest first, in batches of
// data.batch_tokens. Beside the fields of its kind a batch has `index` [rows] i64: the number of
// the example in its file, -1 of an empty row. Examples that are too long are cut, also where
// training would leave them out. Nothing is drawn.
class OrderedReader {
 public:
  // Throws as BatchLengths does.
  OrderedReader(std::shared_ptr<const Examples> examples,
                const BucketOptions& options,
                const BatchDivision& division);

  // Equal on all ranks.
  std::int64_t batches() const { return std::ssize(plan_.batches); }
  bool done() const { return next_ == batches(); }
  // Throws Failure when done.
  Batch next();
  // Back to the first batch.
  void rewind() { next_ = 0; }

  const BatchLengths& lengths() const { return lengths_; }

 private:
  BatchLengths lengths_;
  BatchDivision division_;
  BatchPlan plan_;
  std::int64_t next_ = 0;
};

}  // namespace longspan
