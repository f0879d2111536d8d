// Backend-independent hyperbolic tangent. The backend provides `write_elements`.
#pragma once

#include "framework/kernels/element.h"
#include "framework/kernels/tanh.h"
#include "framework/kernels/vector_math.h"

namespace longspan {

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

}  // namespace longspan
