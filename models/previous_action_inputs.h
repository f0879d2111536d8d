// What a model that acts reads beside what it sees: the action before, and what it was rewarded
// with.
#pragma once

#include "framework/modeling/backbone.h"
#include "framework/nn/embedding.h"

namespace longspan {

// Fields: `previous_action` [rows, time] i64, negative where there was none, by a table
// "previous_action" as tokens have one; `reward` [rows, time] f64, times a vector "reward".
class PreviousActionInputs {
 public:
  PreviousActionInputs(const Scope& scope,
                       std::int64_t width,
                       const Initializer& initial,
                       const ModelBuildOptions& setting);

  // x [rows, time, width], of what is seen, and these. `scale`: of the table's rows.
  Variable operator()(const Variable& x,
                      const ModelInput& reading,
                      double scale,
                      const SequenceShard& time) const;

 private:
  // [rows, positions, 1] of the positions that this rank holds outside of split regions.
  Variable rewards(const ModelInput& reading, const SequenceShard& time) const;

  Device device_;
  DType compute_;
  TokenEmbedding action_;
  Linear reward_;
};

}  // namespace longspan
