// What goes down the model with the activations in one forward pass.
#pragma once

#include <cstdint>

#include "framework/core/random.h"

namespace longspan {

// A value. Each layer hands its sublayers a child, so that each place draws random numbers of its
// own.
struct Pass {
  bool training = false;
  Random random{0};               // of this step
  std::int64_t first_stream = 0;  // the global index of batch row 0

  template <typename Name>
  Pass child(const Name& name) const {
    return {training, random.child(name), first_stream};
  }
};

}  // namespace longspan
