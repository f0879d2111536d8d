#include "framework/nn/attention/strided_attention.h"

namespace longspan {

Mask strided_mask(std::int64_t stride) { return masks::stride(stride); }

Mask columns_beyond(std::int64_t left, std::int64_t stride) {
  if (left < 0) return masks::causal();
  return masks::window(masks::unlimited, -(left / stride + 1));
}

}  // namespace longspan
