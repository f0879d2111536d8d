// Backend-independent soft capping. The backend provides `write_elements`.
#pragma once

#include "framework/kernels/element.h"
#include "framework/kernels/soft_cap.h"
#include "framework/kernels/vector_math.h"

namespace longspan {

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

}  // namespace longspan
