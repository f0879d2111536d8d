// The losses that a checkpoint tells of itself.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoints/training_state.h"

namespace longspan {

// In nats a token. A value: what a run has measured last.
struct SavedLosses {
  struct Validation {
    std::int64_t step = 0;
    double loss = 0;
    std::optional<double> bits_per_byte = {};  // where the task has it
  };

  std::optional<double> loss;  // of the last step, on its own batch
  std::optional<Validation> validation;

  // The scalars "metrics/...". An older checkpoint has none: nothing is taken.
  void save(Scalars& scalars) const;
  static SavedLosses of(const Scalars& scalars);
};

}  // namespace longspan
