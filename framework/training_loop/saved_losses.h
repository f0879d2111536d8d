// Losses that a checkpoint records.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoints/training_state.h"

namespace longspan {

// Last measured losses of a run, in nats per token. A value type.
struct SavedLosses {
  struct Validation {
    std::int64_t step = 0;
    double loss = 0;
    std::optional<double> bits_per_byte = {};  // if the task has it
  };

  std::optional<double> loss;  // of the last step, on its own batch
  std::optional<Validation> validation;

  // The scalars "metrics/...". An older checkpoint has none: the losses stay empty.
  void save(Scalars& scalars) const;
  static SavedLosses of(const Scalars& scalars);
};

}  // namespace longspan
