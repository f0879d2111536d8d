// Dropout whose mask depends on the global element index alone.
#pragma once

#include <cstdint>
#include <vector>

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
  ShardPlacement placement;
  // [outer * middle] i64, on x's device: the row of each row of x in the undivided array [..,
  // inner_total], where they are any; the placement then says that of features only. Undefined: the
  // placement says all.
  Tensor rows = {};
};
void dropout(Cpu, const Dropout&);
void dropout(Cuda, const Dropout&);

// Throws Failure where the shapes, the placement or the rate are not as said above.
void check(const Dropout&);

// What a word must reach, shifted right by 8, for its element to be kept at this rate: exactly
// Random::uniform(word) >= rate.
std::uint32_t dropout_threshold(double rate);

// Rows of a block that follow one another in the undivided array too.
struct RowPlacement {
  std::int64_t first;   // row of the block
  std::int64_t count;   // of rows
  std::int64_t placed;  // row of its placement
};
std::vector<RowPlacement> placed_rows(const ShardPlacement& placement, std::int64_t rows);

}  // namespace longspan
