// Rows of padding set to zero, for what mixes rows before anything could pass over them.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// y[b, t, :] = x[b, t, :] for the rows t of [begin, end), or 0 where the row is padding: where its
// position, `position` + t - begin, is `length`[b] or later, or `padding`[b, position] is 1. x, y:
// [batch, time, ...], of one floating dtype; y may be x. length: [batch] i64; padding: [batch,
// positions] u8; either may be undefined. It is linear in x and its own gradient.
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

// Throws Failure where shapes or dtypes are not as said above.
void check(const MaskPadding&);

}  // namespace longspan
