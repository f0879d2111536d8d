// Softmax over rows and over positions.
#include "framework/kernels/attention/sequence_softmax.h"

#include <limits>

#include "framework/core/host_device.h"
#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

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

}  // namespace

void softmax_rows(Backend backend, const Tensor& x, const Tensor& y) {
  require_same_shape("softmax_rows", x, y);
  const std::int64_t width = x.shape().width();
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    parallel_rows(backend, x.shape().rows(), width, SoftmaxRow<T>{width, x.data<T>(), y.data<T>()});
  });
}

void softmax_rows_backward(Backend backend, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  require_same_shape("softmax_rows_backward", y, dy);
  require_same_shape("softmax_rows_backward", y, dx);
  const std::int64_t width = y.shape().width();
  with_floating_type(y.dtype(), [&]<typename T>(TypeTag<T>) {
    parallel_rows(backend,
                  y.shape().rows(),
                  width,
                  SoftmaxRowGradient<T>{width, y.data<T>(), dy.data<T>(), dx.data<T>()});
  });
}

void max_over_positions(Backend backend,
                        const Tensor& x,
                        const Tensor& log_weight,
                        const Tensor& tops) {
  const Shape& shape = x.shape();
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    parallel_rows(backend,
                  tops.elements(),
                  shape[1],
                  LargestOfPositions<T>{shape[1],
                                        shape[2],
                                        shape[3],
                                        x.data<T>(),
                                        elements_or_null<A>(log_weight),
                                        tops.data<A>()});
  });
}

void exponentials_of_positions(Backend backend,
                               const Tensor& x,
                               const Tensor& log_weight,
                               const Tensor& tops,
                               const Tensor& y) {
  require_same_shape("exponentials_of_positions", x, y);
  const Shape& shape = x.shape();
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    parallel_rows(backend,
                  x.elements(),
                  1,
                  ExponentialOfPosition<T>{shape[1],
                                           shape[2],
                                           shape[3],
                                           x.data<T>(),
                                           elements_or_null<A>(log_weight),
                                           tops.data<A>(),
                                           y.data<T>()});
  });
}

void divide_states(Backend backend, const Tensor& states) {
  const std::int64_t columns = states.shape().width();
  with_floating_type(states.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    parallel_rows(
        backend, states.shape().rows(), columns, DivideState<A>{columns, states.data<A>()});
  });
}

void divide_states_backward(Backend backend, const Tensor& states, const Tensor& gradients) {
  require_same_shape("divide_states_backward", states, gradients);
  const std::int64_t columns = states.shape().width();
  with_floating_type(states.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    parallel_rows(backend,
                  states.shape().rows(),
                  columns,
                  DivideStateGradient<A>{columns, states.data<A>(), gradients.data<A>()});
  });
}

}  // namespace longspan
