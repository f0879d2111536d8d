// Sorting on the device. Its body is a library's.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// sorted = the keys in ascending order, and order[i] = where sorted[i] was among them; equal keys
// stay in their order. keys, sorted, order: [n] i32, apart; keys are read, and are at least 0.
void sort_stably(Cuda, const Tensor& keys, const Tensor& sorted, const Tensor& order);

// About what that takes beside: a second place for keys and order, and counts of digits. A GPU is
// asked; this is for where there is none.
inline std::int64_t sort_scratch_bytes(std::int64_t count) { return 8 * count + (1 << 20); }

}  // namespace longspan
