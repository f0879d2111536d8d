// Incremental forward passes, one position at a time, equal to one pass over the segment.
#pragma once

#include "framework/modeling/model.h"

namespace longspan {

// All members are collective over the ranks that share the rows' time or the weights. As in a
// single pass, positions attend to the memory at the segment's start and to earlier positions. The
// memory grows until the segment ends and is then truncated. Runs without dropout and records no
// gradient.
class IncrementalReader {
 public:
  // The model is used with its current weights at each step.
  IncrementalReader(const Model& model, std::int64_t segment) : model_(&model), segment_(segment) {}

  // Returns the scores of the next position of each row and advances. fields: [rows, 1].
  Tensor read(const Fields& fields);
  // Returns the scores of the next position without advancing.
  Tensor prefill(const Fields& fields) const;

  // Recurrent state at the start of a segment.
  const RecurrentState& carried() const { return carried_; }
  void begin(const RecurrentState& carried);

 private:
  Scores scores(const Fields& fields, std::int64_t extra_context) const;

  const Model* model_;
  std::int64_t segment_;
  std::int64_t position_ = 0;  // in the segment
  RecurrentState carried_ = {};
};

}  // namespace longspan
