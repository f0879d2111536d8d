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

Scores IncrementalReader::scores(const Fields& fields, std::int64_t extra_context) const {
  const NoGradGuard unrecorded;
  return model_->scores({.fields = fields,
                         .carried = carried_,
                         .max_mem_len = model_->body().max_mem_len(),
                         .extra_context = extra_context},
                        ForwardContext());
}

}  // namespace longspan
