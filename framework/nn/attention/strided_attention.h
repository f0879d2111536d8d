// Strided attention (Child et al. 2019): a query sees the keys at multiples of the stride from it,
// its column. The second factor A2 of the paper's strided pattern; the first is a window of the
// stride (local_attention.h).
#pragma once

#include "framework/kernels/attention/mask.h"

namespace longspan {

// (p - k) mod stride = 0.
Mask strided_mask(std::int64_t stride);

// Of a causal sequence's columns, counted in strides, those that a window of `left` keys before the
// query leaves out; all of them where it is negative (there is no window).
Mask columns_beyond(std::int64_t left, std::int64_t stride);

}  // namespace longspan
