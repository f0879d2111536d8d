// The activation functions of elementwise.h and their derivatives.
#pragma once

#include "framework/kernels/elementwise.h"
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
  if constexpr (kind == Activation::relu2) return x < A{0} ? A{0} : x * x;
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
  if constexpr (kind == Activation::relu2) return x < A{0} ? A{0} : 2 * x;
  return A{1};
}

}  // namespace longspan
