// Backend-independent activations. The backend provides `write_elements`.
#pragma once

#include "framework/kernels/activation.h"
#include "framework/kernels/element.h"
#include "framework/kernels/vector_math.h"

namespace longspan {

// gelu_tanh(x) = x logistic(2u) with u = sqrt(2/pi) (x + 0.044715 x^3): equivalent, but without the
// cancellation of 1 + tanh.
template <typename A>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline A tanh_argument(A x) {
  return A(1.5957691216057308) * (x + A(0.044715) * x * x * x);
}

// The function and its derivative, by activation. NaN propagates.
template <Activation kind, typename A>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline A value_of(A x) {
  if constexpr (kind == Activation::relu) return x < A{0} ? A{0} : x;
  if constexpr (kind == Activation::gelu) return x * normal_distribution(x).below;
  if constexpr (kind == Activation::gelu_tanh) return x * sigmoid(tanh_argument(x));
  if constexpr (kind == Activation::silu) return x * sigmoid(x);
  return x;
}

template <Activation kind, typename A>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline A slope_of(A x) {
  if constexpr (kind == Activation::relu) return x <= A{0} ? A{0} : A{1};
  if constexpr (kind == Activation::gelu) {
    const auto normal = normal_distribution(x);
    return normal.below + x * normal.density;
  }
  if constexpr (kind == Activation::gelu_tanh) {
    const A inner = A(1.5957691216057308) * (A{1} + A(3 * 0.044715) * x * x);
    const A part = sigmoid(tanh_argument(x));
    return part + x * part * (A{1} - part) * inner;
  }
  if constexpr (kind == Activation::silu) {
    const A part = sigmoid(x);
    return part + x * part * (A{1} - part);
  }
  return A{1};
}

template <Activation kind, typename T>
struct Activate {
  const T* x;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return value_of<kind>(wide(x[i]));
  }
};

template <Activation kind, typename T>
struct ActivateBackward {
  const T* kept;
  const T* dy;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return wide(dy[i]) * slope_of<kind>(wide(kept[i]));
  }
};

template <typename F>
void with_activation(Activation activation, const F& f) {
  using enum Activation;
  switch (activation) {
    case none:
      return f(std::integral_constant<Activation, none>{});
    case relu:
      return f(std::integral_constant<Activation, relu>{});
    case gelu:
      return f(std::integral_constant<Activation, gelu>{});
    case gelu_tanh:
      return f(std::integral_constant<Activation, gelu_tanh>{});
    case silu:
      return f(std::integral_constant<Activation, silu>{});
  }
}

template <typename Backend>
void activate_on(Backend backend, Activation activation, const Tensor& x, const Tensor& y) {
  require_same_shape("activate", x, y);
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    with_activation(activation, [&](auto kind) {
      write_elements(backend, x.elements(), y.data<T>(), Activate<kind(), T>{x.data<T>()});
    });
  });
}

template <typename Backend>
void activate_backward_on(Backend backend,
                          Activation activation,
                          const Tensor& kept,
                          const Tensor& dy,
                          const Tensor& dx) {
  require_same_shape("activate_backward", kept, dy);
  require_same_shape("activate_backward", kept, dx);
  with_floating_type(dy.dtype(), [&]<typename T>(TypeTag<T>) {
    with_activation(activation, [&](auto kind) {
      write_elements(backend,
                     dy.elements(),
                     dx.data<T>(),
                     ActivateBackward<kind(), T>{kept.data<T>(), dy.data<T>()});
    });
  });
}

}  // namespace longspan
