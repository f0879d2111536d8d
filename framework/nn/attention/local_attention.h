// Local attention: a query attends to the keys around it (sliding window, Beltagy et al. 2020;
// Parmar et al. 2018).
#pragma once

#include "framework/kernels/attention/mask.h"

namespace longspan {

struct SlidingWindow {
  std::int64_t left = 0;      // keys before the query, excluding itself
  std::int64_t right = 0;     // keys after it
  std::int64_t dilation = 1;  // step between them
};

// Returns the mask p - left * dilation <= k <= p + right * dilation, with (p - k) mod dilation = 0.
Mask sliding_window_mask(const SlidingWindow& local);

}  // namespace longspan
