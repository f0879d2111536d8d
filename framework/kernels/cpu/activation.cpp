#include "framework/kernels/activation.h"

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/cpu/vector_math.h"

namespace longspan {
namespace {

// gelu_tanh(x) = x logistic(2u) with u = sqrt(2/pi) (x + 0.044715 x^3): the same function without
// the cancellation of 1 + tanh.
template <typename A>
[[gnu::always_inline]] inline A tanh_argument(A x) {
  return A(1.5957691216057308) * (x + A(0.044715) * x * x * x);
}

// The function and its derivative, by activation; NaN goes through.
template <Activation kind, typename A>
[[gnu::always_inline]] inline A value_of(A x) {
  if constexpr (kind == Activation::relu) return x < A{0} ? A{0} : x;
  if constexpr (kind == Activation::gelu) return x * normal_distribution(x).below;
  if constexpr (kind == Activation::gelu_tanh) return x * logistic(tanh_argument(x));
  return x;
}

template <Activation kind, typename A>
[[gnu::always_inline]] inline A slope_of(A x) {
  if constexpr (kind == Activation::relu) return x <= A{0} ? A{0} : A{1};
  if constexpr (kind == Activation::gelu) {
    const auto normal = normal_distribution(x);
    return normal.below + x * normal.density;
  }
  if constexpr (kind == Activation::gelu_tanh) {
    const A inner = A(1.5957691216057308) * (A{1} + A(3 * 0.044715) * x * x);
    const A part = logistic(tanh_argument(x));
    return part + x * part * (A{1} - part) * inner;
  }
  return A{1};
}

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
  }
}

void require_same(const char* kernel, const Tensor& a, const Tensor& b) {
  require(a.elements() == b.elements() && a.dtype() == b.dtype(),
          "{}: found {} {} and {} {}, wanted the same number of elements and dtype",
          kernel,
          name_of(a.dtype()),
          a.shape().to_string(),
          name_of(b.dtype()),
          b.shape().to_string());
}

}  // namespace

void activate(Cpu, Activation activation, const Tensor& x, const Tensor& y) {
  require_same("activate", x, y);
  with_floating_type(x.dtype(), [&](auto tag) {
    with_activation(activation, [&](auto kind) {
      using T = typename decltype(tag)::type;
      const T* from = x.data<T>();
      T* to = y.data<T>();
      for_elements(x.elements(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i)
          put(to[i], value_of<decltype(kind)::value>(static_cast<Accumulator<T>>(from[i])));
      });
    });
  });
}

void activate_backward(
    Cpu, Activation activation, const Tensor& kept, const Tensor& dy, const Tensor& dx) {
  require_same("activate_backward", kept, dy);
  require_same("activate_backward", kept, dx);
  with_floating_type(dy.dtype(), [&](auto tag) {
    with_activation(activation, [&](auto kind) {
      using T = typename decltype(tag)::type;
      using A = Accumulator<T>;
      const T *x = kept.data<T>(), *above = dy.data<T>();
      T* below = dx.data<T>();
      for_elements(dy.elements(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i)
          put(below[i],
              static_cast<A>(above[i]) * slope_of<decltype(kind)::value>(static_cast<A>(x[i])));
      });
    });
  });
}

}  // namespace longspan
