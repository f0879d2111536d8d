// Element-wise operations: sums, multiples, casts, caps, clamps, activations and gated hidden
// layers.
#include "framework/kernels/elementwise.h"

#include <type_traits>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/activation.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

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

// y = f(x), in the accumulator type.
template <typename T, typename F>
struct Map {
  const T* x;
  F f;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return f(wide(x[i]));
  }
};

// dx = dy slope(kept), in the accumulator type.
template <typename T, typename F>
struct MapBackward {
  const T* kept;
  const T* dy;
  F slope;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return wide(dy[i]) * slope(wide(kept[i]));
  }
};

// The maps, and their slopes at the tensor that their backward function is given.

struct SoftCap {
  double cap;

  template <typename A>
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE A operator()(A x) const {
    const A most = static_cast<A>(cap);
    return most * tanh(x / most);
  }
};

struct SoftCapSlope {
  double cap;

  template <typename A>
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE A operator()(A x) const {
    const A part = tanh(x / static_cast<A>(cap));
    return A{1} - part * part;
  }
};

struct Tanh {
  template <typename A>
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE A operator()(A x) const {
    return tanh(x);
  }
};

struct TanhSlope {
  template <typename A>
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE A operator()(A y) const {
    return A{1} - y * y;
  }
};

template <Activation kind>
struct Activate {
  template <typename A>
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE A operator()(A x) const {
    return value_of<kind>(x);
  }
};

template <Activation kind>
struct ActivationSlope {
  template <typename A>
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE A operator()(A x) const {
    return slope_of<kind>(x);
  }
};

template <typename F>
void map(Backend backend, const char* kernel, const Tensor& x, const Tensor& y, F f) {
  require_same_shape(kernel, x, y);
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend, x.elements(), y.data<T>(), Map<T, F>{x.data<T>(), f});
  });
}

template <typename F>
void map_backward(Backend backend,
                  const char* kernel,
                  const Tensor& kept,
                  const Tensor& dy,
                  const Tensor& dx,
                  F slope) {
  require_same_shape(kernel, kept, dy);
  require_same_shape(kernel, kept, dx);
  with_floating_type(dy.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend,
                   dy.elements(),
                   dx.data<T>(),
                   MapBackward<T, F>{kept.data<T>(), dy.data<T>(), slope});
  });
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
    case silu:
      return f(std::integral_constant<Activation, silu>{});
    case relu2:
      return f(std::integral_constant<Activation, relu2>{});
  }
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

// y = factor * x, or y += factor * x.
void multiply_by(Backend backend,
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

}  // namespace

void add(Backend backend, const Tensor& a, const Tensor& b, const Tensor& out) {
  require_same_shape("add", a, b);
  require_same_shape("add", a, out);
  with_floating_type(a.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend, a.elements(), out.data<T>(), Add<T>{a.data<T>(), b.data<T>()});
  });
}

void accumulate(Backend backend, double factor, const Tensor& x, const Tensor& y) {
  multiply_by(backend, "accumulate", factor, x, y, true);
}

void scale(Backend backend, double factor, const Tensor& x, const Tensor& y) {
  multiply_by(backend, "scale", factor, x, y, false);
}

void fill(Backend backend, double factor, const Tensor& one, const Tensor& y) {
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

void clamp(Backend backend, const Tensor& x, double least, double most) {
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

void soft_cap(Backend backend, double cap, const Tensor& x, const Tensor& y) {
  map(backend, "soft_cap", x, y, SoftCap{cap});
}

void softcap_backward(
    Backend backend, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  map_backward(backend, "softcap_backward", x, dy, dx, SoftCapSlope{cap});
}

void tanh(Backend backend, const Tensor& x, const Tensor& y) { map(backend, "tanh", x, y, Tanh()); }

void tanh_backward(Backend backend, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  map_backward(backend, "tanh_backward", y, dy, dx, TanhSlope());
}

void activate(Backend backend, Activation activation, const Tensor& x, const Tensor& y) {
  with_activation(activation,
                  [&](auto kind) { map(backend, "activate", x, y, Activate<kind()>()); });
}

void activate_backward(Backend backend,
                       Activation activation,
                       const Tensor& kept,
                       const Tensor& dy,
                       const Tensor& dx) {
  with_activation(activation, [&](auto kind) {
    map_backward(backend, "activate_backward", kept, dy, dx, ActivationSlope<kind()>());
  });
}

void gated_hidden(Backend backend, const GatedHidden& hidden) {
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

void gated_hidden_backward(Backend backend, const GatedHiddenGradient& hidden) {
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
