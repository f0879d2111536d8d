// Per-element functions of random features, shared by the CPU and CUDA kernels.
#pragma once

#include <cmath>

#include "framework/core/host_device.h"
#include "framework/kernels/element.h"
#include "framework/kernels/random_features.h"
#include "framework/kernels/vector_math.h"

namespace longspan {

// Softmax features of one row. u: one projection; `top`: the largest.
template <typename A>
struct FeatureRow {
  A top;
  A squares;  // |scale x|^2 / 2
  A shift;

  LONGSPAN_HOST_DEVICE FeatureRow(const RandomFeatures& map, A largest, A half_squares)
      : top(largest),
        squares(half_squares),
        shift(map.shifts_by_projection ? largest : largest - half_squares) {}
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE A softmax(A u) const {
    return fast_exp(u - squares - shift);
  }
};

// Gradient with respect to u of feature c, computed from the features. T: their type.
template <typename T>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline Accumulator<T> feature_gradient(
    const RandomFeatures& map,
    Accumulator<T> floor,
    const T* out,
    const T* dout,
    std::int64_t count,
    std::int64_t c) {
  using A = Accumulator<T>;
  if (map.map == RandomMap::softmax)
    return map.log_gradients ? wide(dout[c]) : wide(dout[c]) * wide(out[c]);
  if (map.map == RandomMap::relu) return wide(out[c]) > floor ? wide(dout[c]) : A{0};
  return wide(dout[c]) * wide(out[count + c]) - wide(dout[count + c]) * wide(out[c]);
}

}  // namespace longspan
