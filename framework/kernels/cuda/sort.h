// Sorting on the device, implemented with a library.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Stable sort: sorted = the keys in ascending order, order[i] = the index of sorted[i] in keys.
// keys, sorted, order: [n] i32, not aliased; keys are read and must not be negative.
void sort_stably(Cuda, const Tensor& keys, const Tensor& sorted, const Tensor& order);

// Approximate scratch size: a second buffer for keys and order, and digit counts. For dry devices;
// on a GPU the library reports the size.
inline std::int64_t sort_scratch_bytes(std::int64_t count) { return 8 * count + (1 << 20); }

}  // namespace longspan
