// Strided attention (Child et al. 2019): a query attends to keys at multiples of the stride before
// it, its column. This is factor A2 of the paper's strided pattern. A1 is a window of the stride
// (local_attention.h).
#pragma once

#include "framework/kernels/attention/mask.h"

namespace longspan {

// Returns the mask (p - k) mod stride = 0.
Mask strided_mask(std::int64_t stride);

// Returns the columns of a causal sequence, in strides, outside a window of `left` keys before the
// query. Negative `left`: no window, all columns.
Mask columns_beyond(std::int64_t left, std::int64_t stride);

}  // namespace longspan
