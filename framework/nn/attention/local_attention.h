// Local attention: a query sees the keys around it (Beltagy et al. 2020, sliding window; Parmar et
// al. 2018).
#pragma once

#include "framework/kernels/attention/mask.h"

namespace longspan {

struct SlidingWindow {
  std::int64_t left = 0;      // keys before the query, besides itself
  std::int64_t right = 0;     // keys after it
  std::int64_t dilation = 1;  // from one of them to the next
};

// p - left * dilation <= k <= p + right * dilation, and (p - k) mod dilation = 0.
Mask sliding_window_mask(const SlidingWindow& local);

}  // namespace longspan
