#include "framework/rl/step_reader.h"

namespace longspan {

void IncrementalReader::begin(const RecurrentState& carried) {
  carried_ = carried;
  position_ = 0;
}

Tensor IncrementalReader::read(const Fields& fields) {
  position_ = (position_ + 1) % segment_;
  Scores found = scores(fields, position_);
  carried_ = std::move(found.carried);
  return found.scores.value();
}

Tensor IncrementalReader::prefill(const Fields& fields) const {
  return scores(fields, position_ + 1).scores.value();
}

Scores IncrementalReader::scores(const Fields& fields, std::int64_t beside) const {
  const NoGradGuard unrecorded;
  return model_->scores({.fields = fields,
                         .carried = carried_,
                         .longest_memory = model_->body().longest_memory(),
                         .extra_context = beside},
                        ForwardContext());
}

}  // namespace longspan
