// Zeroes padding rows before operations that mix rows.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// y[b, t, :] = x[b, t, :] for rows t of [begin, end), or 0 if the row is padding. A row is padding
// if its position, `position` + t - begin, is at least `length`[b], or if `padding`[b, position] is
// 1. x, y: [batch, time, ...], one floating dtype; y may alias x. length: [batch] i64; padding:
// [batch, positions] u8; either may be undefined. The operation is linear in x and is its own
// gradient.
struct MaskPadding {
  Tensor x;
  Tensor y;
  Tensor length = {};
  Tensor padding = {};
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t position = 0;
};
void mask_padding(Cpu, const MaskPadding&);
void mask_padding(Cuda, const MaskPadding&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const MaskPadding&);

}  // namespace longspan
