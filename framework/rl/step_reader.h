// Reading on a position at a time, as the whole segment is read that they make.
#pragma once

#include "framework/modeling/model.h"

namespace longspan {

// A segment's positions see the memory of its beginning and the positions before them, as they do
// when all are read in one pass: what is remembered grows until the segment ends, and is cut then.
// Without dropout, and nothing is recorded. All is collective over the ranks that share the rows'
// time or the weights.
class IncrementalReader {
 public:
  // The model is read as it is at each step.
  IncrementalReader(const Model& model, std::int64_t segment) : model_(&model), segment_(segment) {}

  // The scores of one more position of each row, by fields [rows, 1], which is taken in.
  Tensor read(const Fields& fields);
  // The same of a position that is only looked at.
  Tensor prefill(const Fields& fields) const;

  // At the beginning of a segment.
  const RecurrentState& carried() const { return carried_; }
  void begin(const RecurrentState& carried);

 private:
  Scores scores(const Fields& fields, std::int64_t beside) const;

  const Model* model_;
  std::int64_t segment_;
  std::int64_t position_ = 0;  // in the segment
  RecurrentState carried_ = {};
};

}  // namespace longspan
