// Per-row and per-column functions of efficient attention, shared by the CPU and CUDA kernels.
#pragma once

#include <limits>

#include "framework/core/host_device.h"
#include "framework/kernels/attention/sequence_softmax.h"
#include "framework/kernels/element.h"
#include "framework/kernels/vector_math.h"

namespace longspan {

template <typename T>
struct SoftmaxRow {
  using A = Accumulator<T>;
  std::int64_t width;
  const T* x;
  T* y;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const T* const from = x + row * width;
    T* const to = y + row * width;
    A top = wide(from[0]), sum = 0;
    for (std::int64_t c = 1; c < width; ++c) top = wide(from[c]) > top ? wide(from[c]) : top;
    for (std::int64_t c = 0; c < width; ++c) sum += fast_exp(wide(from[c]) - top);
    const A factor = A{1} / sum;
    for (std::int64_t c = 0; c < width; ++c) put(to[c], fast_exp(wide(from[c]) - top) * factor);
  }
};

template <typename T>
struct SoftmaxRowGradient {
  using A = Accumulator<T>;
  std::int64_t width;
  const T *y, *dy;
  T* dx;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const T* const of = y + row * width;
    const T* const from = dy + row * width;
    T* const to = dx + row * width;
    A along = 0;
    for (std::int64_t c = 0; c < width; ++c) along += wide(of[c]) * wide(from[c]);
    for (std::int64_t c = 0; c < width; ++c) put(to[c], wide(of[c]) * (wide(from[c]) - along));
  }
};

// Element i of [batch, heads, dim]; loops over time.
template <typename T>
struct LargestOfPositions {
  using A = Accumulator<T>;
  std::int64_t time, heads, dim;
  const T* x;
  const A* log_weight;
  A* tops;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    constexpr A nothing = -std::numeric_limits<A>::infinity();
    const std::int64_t b = i / (heads * dim), h = i / dim % heads;
    A top = nothing;
    for (std::int64_t t = 0; t < time; ++t) {
      const std::int64_t row = (b * time + t) * heads + h;
      if (log_weight != nullptr && log_weight[row] == nothing) continue;
      const A value = wide(x[row * dim + i % dim]);
      top = value > top ? value : top;
    }
    tops[i] = top;
  }
};

// Element i of [batch, time, heads, dim].
template <typename T>
struct ExponentialOfPosition {
  using A = Accumulator<T>;
  std::int64_t time, heads, dim;
  const T* x;
  const A *log_weight, *tops;
  T* y;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / dim, b = row / (time * heads), h = row % heads;
    const bool hidden =
        log_weight != nullptr && log_weight[row] == -std::numeric_limits<A>::infinity();
    put(y[i], hidden ? A{0} : fast_exp(wide(x[i]) - tops[(b * heads + h) * dim + i % dim]));
  }
};

template <typename A>
struct DivideState {
  std::int64_t columns;
  A* states;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    A* const state = states + row * columns;
    const A sum = state[columns - 1], factor = sum == 0 ? A{0} : A{1} / sum;
    for (std::int64_t c = 0; c + 1 < columns; ++c) state[c] *= factor;
  }
};

template <typename A>
struct DivideStateGradient {
  std::int64_t columns;
  const A* states;
  A* gradients;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const A* const state = states + row * columns;
    A* const gradient = gradients + row * columns;
    const A sum = state[columns - 1], factor = sum == 0 ? A{0} : A{1} / sum;
    A along = 0;
    for (std::int64_t c = 0; c + 1 < columns; ++c) {
      along += gradient[c] * state[c];
      gradient[c] *= factor;
    }
    gradient[columns - 1] = -along * factor;
  }
};

}  // namespace longspan
