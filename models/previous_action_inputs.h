// Additional inputs of an agent: the previous action and its reward.
#pragma once

#include "framework/modeling/backbone.h"
#include "framework/nn/embedding.h"

namespace longspan {

// Fields: `previous_action` [rows, time] i64, negative if none, embedded with the table
// "previous_action"; `reward` [rows, time] f64, multiplied by a vector "reward".
class PreviousActionInputs {
 public:
  PreviousActionInputs(const Scope& scope,
                       std::int64_t width,
                       const Initializer& initial,
                       const ModelBuildOptions& setting);

  // Returns x [rows, time, width], the embedded observations, plus both inputs. scale: of the
  // table's rows.
  Variable operator()(const Variable& x,
                      const ModelInput& reading,
                      double scale,
                      const SequenceShard& time) const;

 private:
  // [rows, positions, 1] of this rank's positions outside split regions.
  Variable rewards(const ModelInput& reading, const SequenceShard& time) const;

  Device device_;
  DType compute_;
  TokenEmbedding action_;
  Linear reward_;
};

}  // namespace longspan
