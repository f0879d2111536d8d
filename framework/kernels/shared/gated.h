// Backend-independent gated hidden layers. The backend provides `write_elements` and
// `for_each_element`.
#pragma once

#include "framework/kernels/gated.h"
#include "framework/kernels/shared/activation.h"

namespace longspan {

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
