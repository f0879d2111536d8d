// Dropout whose mask depends only on the global element index.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/random.h"
#include "framework/core/tensor.h"

namespace longspan {

// y = x / (1 - rate) where random.uniform_at(index) >= rate, else 0. x, y: [outer, middle, inner]
// (reshape first). Overwrites y, which may alias x. The gradient is the same call on dy.
struct Dropout {
  Tensor x;
  Tensor y;
  double rate = 0;
  Random random;
  ShardPlacement placement;
  // [outer * middle] i64, on x's device: the row of each row of x in the unsharded array [..,
  // inner_total], in any order. The placement then describes the features only. Undefined: the
  // placement describes rows and features.
  Tensor rows = {};
};
void dropout(Cpu, const Dropout&);
void dropout(Cuda, const Dropout&);

// Throws Failure if the shapes, the placement or the rate are invalid.
void check(const Dropout&);

// Returns the smallest word >> 8 whose element is kept at this rate: exactly Random::uniform(word)
// >= rate.
std::uint32_t dropout_threshold(double rate);

// Consecutive rows of a block that are also consecutive in the unsharded array.
struct RowPlacement {
  std::int64_t first;   // first row within the block
  std::int64_t count;   // number of rows
  std::int64_t placed;  // first row in the unsharded array
};
std::vector<RowPlacement> placed_rows(const ShardPlacement& placement, std::int64_t rows);

// y = base + dropout(x), bitwise equal to `dropout` followed by `add`. base: shape and dtype of y,
// which it may alias.
void dropout_add(Cpu, const Tensor& base, const Dropout&);
void dropout_add(Cuda, const Tensor& base, const Dropout&);

}  // namespace longspan
