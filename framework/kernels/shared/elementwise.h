// Backend-independent element-wise operations: sums, multiples, casts, caps, clamps, tanh,
// activations and gated hidden layers. The backend provides `write_elements` and
// `for_each_element`.
#pragma once

#include "framework/kernels/element.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/vector_math.h"

namespace longspan {

template <typename T>
struct Add {
  const T* a;
  const T* b;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return wide(a[i]) + wide(b[i]);
  }
};

template <typename X, typename Y>
struct Scale {
  using A = Wider<X, Y>;
  A factor;
  const X* x;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE A operator()(std::int64_t i) const {
    return factor * static_cast<A>(wide(x[i]));
  }
};

template <typename X, typename Y>
struct Accumulate {
  Scale<X, Y> scaled;
  const Y* y;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return static_cast<Wider<X, Y>>(wide(y[i])) + scaled(i);
  }
};

template <typename X, typename Y>
struct Fill {
  using A = Accumulator<X>;
  A factor;
  const X* one;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t) const {
    return static_cast<Accumulator<Y>>(factor * wide(*one));
  }
};

template <typename Backend>
void add_on(Backend backend, const Tensor& a, const Tensor& b, const Tensor& out) {
  require_same_shape("add", a, b);
  require_same_shape("add", a, out);
  with_floating_type(a.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend, a.elements(), out.data<T>(), Add<T>{a.data<T>(), b.data<T>()});
  });
}

// y = factor * x, or y += factor * x.
template <typename Backend>
void multiply_on(Backend backend,
                 const char* kernel,
                 double factor,
                 const Tensor& x,
                 const Tensor& y,
                 bool add) {
  require_as_many(kernel, x, y);
  with_both_types(x, y, [&]<typename X, typename Y>(TypeTag<X>, TypeTag<Y>) {
    const Scale<X, Y> scaled{static_cast<Wider<X, Y>>(factor), x.data<X>()};
    if (add)
      write_elements(backend, x.elements(), y.data<Y>(), Accumulate<X, Y>{scaled, y.data<Y>()});
    else
      write_elements(backend, x.elements(), y.data<Y>(), scaled);
  });
}

template <typename Backend>
void fill_on(Backend backend, double factor, const Tensor& one, const Tensor& y) {
  require(one.elements() == 1,
          "fill: expected a one-element value, found shape {}",
          one.shape().to_string());
  with_both_types(one, y, [&]<typename X, typename Y>(TypeTag<X>, TypeTag<Y>) {
    write_elements(backend,
                   y.elements(),
                   y.data<Y>(),
                   Fill<X, Y>{static_cast<Accumulator<X>>(factor), one.data<X>()});
  });
}

// Throws Failure if shapes or dtypes do not match elementwise.h.
void check_copy_rows(const Tensor& from,
                     std::int64_t from_begin,
                     const Tensor& to,
                     std::int64_t to_begin,
                     std::int64_t count);
void check_scale_and_add_rows(const Tensor& x, const Tensor& table, const Tensor& y);
void check_add_column_sums(const Tensor& x, const Tensor& out);
void check_total(const Tensor& total);

template <typename T>
struct SoftCap {
  Accumulator<T> cap;
  const T* x;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return cap * tanh(wide(x[i]) / cap);
  }
};

template <typename T>
struct HoldBelowGradient {
  Accumulator<T> cap;
  const T* x;
  const T* dy;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    const auto part = tanh(wide(x[i]) / cap);
    return wide(dy[i]) * (1 - part * part);
  }
};

template <typename Backend>
void softcap_on(Backend backend, double cap, const Tensor& x, const Tensor& y) {
  require_same_shape("soft_cap", x, y);
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend,
                   x.elements(),
                   y.data<T>(),
                   SoftCap<T>{static_cast<Accumulator<T>>(cap), x.data<T>()});
  });
}

template <typename Backend>
void softcap_backward_on(
    Backend backend, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  require_same_shape("softcap_backward", x, dy);
  require_same_shape("softcap_backward", x, dx);
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(
        backend,
        x.elements(),
        dx.data<T>(),
        HoldBelowGradient<T>{static_cast<Accumulator<T>>(cap), x.data<T>(), dy.data<T>()});
  });
}

template <typename T>
struct Clamp {
  const T* x;
  T least;
  T most;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE T operator()(std::int64_t i) const {
    const T value = x[i];
    return value < least ? least : value > most ? most : value;
  }
};

template <typename Backend>
void clamp_on(Backend backend, const Tensor& x, double least, double most) {
  require(x.dtype() == DType::f32 || x.dtype() == DType::f64,
          "clamp: expected x f32 or f64, found {}",
          name_of(x.dtype()));
  require(least <= most, "clamp: expected an ascending range, found {} to {}", least, most);
  const auto write = [&](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    write_elements(
        backend, x.elements(), data, Clamp<T>{data, static_cast<T>(least), static_cast<T>(most)});
  };
  if (x.dtype() == DType::f64)
    write(x.data<double>());
  else
    write(x.data<float>());
}

template <typename A>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline A tanh(A x) {
  return A{2} * sigmoid(A{2} * x) - A{1};
}

template <typename T>
struct HyperbolicTangent {
  const T* x;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return tanh(wide(x[i]));
  }
};

template <typename T>
struct HyperbolicTangentBackward {
  const T* y;
  const T* dy;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    const auto value = wide(y[i]);
    return wide(dy[i]) * (1 - value * value);
  }
};

template <typename Backend>
void tanh_on(Backend backend, const Tensor& x, const Tensor& y) {
  require_same_shape("tanh", x, y);
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend, x.elements(), y.data<T>(), HyperbolicTangent<T>{x.data<T>()});
  });
}

template <typename Backend>
void tanh_backward_on(Backend backend, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  require_same_shape("tanh_backward", y, dy);
  require_same_shape("tanh_backward", y, dx);
  with_floating_type(dy.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend,
                   dy.elements(),
                   dx.data<T>(),
                   HyperbolicTangentBackward<T>{y.data<T>(), dy.data<T>()});
  });
}

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

template <Activation kind, typename T>
struct GateHidden {
  const T* before;
  const T* factor;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return value_of<kind>(wide(before[i])) * wide(factor[i]);
  }
};

// All inputs of an element are read before any output is written, because they may alias.
template <Activation kind, typename T>
struct GateHiddenBackward {
  const T* before;
  const T* factor;
  const T* dy;
  T* dbefore;
  T* dfactor;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto x = wide(before[i]), other = wide(factor[i]), above = wide(dy[i]);
    put(dbefore[i], above * other * slope_of<kind>(x));
    put(dfactor[i], above * value_of<kind>(x));
  }
};

template <typename Backend>
void gated_hidden_on(Backend backend, const GatedHidden& hidden) {
  require_same_shape("gated_hidden", hidden.before, hidden.factor);
  require_same_shape("gated_hidden", hidden.before, hidden.y);
  with_floating_type(hidden.y.dtype(), [&]<typename T>(TypeTag<T>) {
    with_activation(hidden.activation, [&](auto kind) {
      write_elements(backend,
                     hidden.y.elements(),
                     hidden.y.data<T>(),
                     GateHidden<kind(), T>{hidden.before.data<T>(), hidden.factor.data<T>()});
    });
  });
}

template <typename Backend>
void gated_hidden_backward_on(Backend backend, const GatedHiddenGradient& hidden) {
  for (const Tensor* const other : {&hidden.factor, &hidden.dy, &hidden.dbefore, &hidden.dfactor})
    require_same_shape("gated_hidden_backward", hidden.before, *other);
  with_floating_type(hidden.dy.dtype(), [&]<typename T>(TypeTag<T>) {
    with_activation(hidden.activation, [&](auto kind) {
      for_each_element(backend,
                       hidden.dy.elements(),
                       GateHiddenBackward<kind(), T>{hidden.before.data<T>(),
                                                     hidden.factor.data<T>(),
                                                     hidden.dy.data<T>(),
                                                     hidden.dbefore.data<T>(),
                                                     hidden.dfactor.data<T>()});
    });
  });
}

}  // namespace longspan
