#include "framework/nn/attention/fixed_attention.h"

namespace longspan {
namespace {

Mask columns_of(const FixedPattern& fixed) {
  const std::int64_t first = fixed.stride - (fixed.group + 1) * fixed.summary;
  return masks::columns(fixed.stride, first, fixed.summary);
}

}  // namespace

Mask block_mask(const FixedPattern& fixed) { return masks::block(fixed.stride); }

Mask block_window_keys(const FixedPattern& fixed, std::int64_t before, std::int64_t after) {
  return masks::block(fixed.stride, before, after);
}

Mask summary_mask(const FixedPattern& fixed) {
  return fixed.self ? columns_of(fixed) | masks::self() : columns_of(fixed);
}

Mask fixed_mask(const FixedPattern& fixed) { return block_mask(fixed) | columns_of(fixed); }

}  // namespace longspan
