#include "framework/reinforcement/step_reader.h"

namespace longspan {

void StepReader::begin(const Carried& carried) {
  carried_ = carried;
  position_ = 0;
}

Tensor StepReader::read(const Fields& fields) {
  position_ = (position_ + 1) % segment_;
  Scores found = scores(fields, position_);
  carried_ = std::move(found.carried);
  return found.scores.value();
}

Tensor StepReader::look(const Fields& fields) const {
  return scores(fields, position_ + 1).scores.value();
}

Scores StepReader::scores(const Fields& fields, std::int64_t beside) const {
  const NoGradient unrecorded;
  return model_->scores({.fields = fields,
                         .carried = carried_,
                         .longest_memory = model_->body().longest_memory(),
                         .kept_beside = beside},
                        Pass());
}

}  // namespace longspan
