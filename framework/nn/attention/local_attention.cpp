#include "framework/nn/attention/local_attention.h"

#include "framework/core/error.h"

namespace longspan {

Mask sliding_window_mask(const SlidingWindow& local) {
  require(local.left >= 0 && local.right >= 0 && local.dilation > 0,
          "local attention: invalid window: {} keys to the left, {} to the right, dilation {}",
          local.left,
          local.right,
          local.dilation);
  const Mask window = masks::window(local.left * local.dilation, local.right * local.dilation);
  return local.dilation == 1 ? window : window & masks::stride(local.dilation);
}

}  // namespace longspan
