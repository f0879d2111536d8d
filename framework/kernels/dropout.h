// Dropout whose mask depends on the global element index alone.
#pragma once

#include "framework/core/random.h"
#include "framework/core/tensor.h"

namespace longspan {

// y = x / (1 - rate) where random.uniform_at(index) >= rate, else 0. x, y: [outer, middle, inner]
// (reshape first); y is written and may be x. The gradient is the same call on dy.
struct Dropout {
  Tensor x;
  Tensor y;
  double rate = 0;
  Random random;
  Placement placement;
};
void dropout(Cpu, const Dropout&);

}  // namespace longspan
