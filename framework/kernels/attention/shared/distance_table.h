// Attention tables with one row for each relative position.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "framework/core/tensor.h"
#include "framework/kernels/attention/tile_plan.h"

namespace longspan::tile_attention {

// Rows by relative position p - k: the keys of the relative term, Shaw's tables, or their
// gradients.
template <typename T>
struct DistanceTable {
  T* lowest = nullptr;  // the row of relative position `low` of head 0
  std::int64_t step = 0;
  std::int64_t head_step = 0;
  std::int64_t low = 0;
  std::int64_t high = -1;
  bool clipped = false;  // relative positions beyond an end use the row at that end
  std::int64_t width = 0;

  LONGSPAN_HOST_DEVICE explicit operator bool() const { return lowest != nullptr; }
  LONGSPAN_HOST_DEVICE std::int64_t count() const { return high - low + 1; }
  LONGSPAN_HOST_DEVICE T* row(std::int64_t h, std::int64_t distance) const {
    return lowest + h * head_step + (std::clamp(distance, low, high) - low) * step;
  }
  // Tiles whose relative positions all lie beyond one end are equivalent and share one origin.
  std::int64_t origin(std::int64_t of_tile) const {
    return clipped ? std::clamp(of_tile, low - (attention_tile - 1), high + attention_tile - 1)
                   : of_tile;
  }

  static DistanceTable by_head(const Tensor& tensor) {  // [distances, heads, width]
    const Shape& s = tensor.shape();
    return {tensor.data<std::remove_const_t<T>>(), s[1] * s[2], s[2], 0, s[0] - 1, false, s[2]};
  }
  static DistanceTable shared(const Tensor& tensor) {  // [2 K + 1, width], row K + k - p
    const Shape& s = tensor.shape();
    const std::int64_t most = s[0] / 2;
    return {
        tensor.data<std::remove_const_t<T>>() + 2 * most * s[1], -s[1], 0, -most, most, true, s[1]};
  }
};

}  // namespace longspan::tile_attention
