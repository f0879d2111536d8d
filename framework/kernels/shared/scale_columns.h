// Backend-independent column scaling. The backend provides `write_elements`.
#pragma once

#include "framework/kernels/element.h"
#include "framework/kernels/scale_columns.h"

namespace longspan {

template <typename T, typename F>
struct ScaleColumn {
  std::int64_t width;
  const T* x;
  const F* factors;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE Accumulator<T> operator()(std::int64_t i) const {
    return wide(x[i]) * static_cast<Accumulator<T>>(wide(factors[i % width]));
  }
};

template <typename T>
struct Multiply {
  const T* a;
  const T* b;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    return wide(a[i]) * wide(b[i]);
  }
};

template <typename Backend>
void scale_columns_on(Backend backend, const Tensor& x, const Tensor& factors, const Tensor& y) {
  require_same_shape("scale_columns", x, y);
  const std::int64_t width = factors.elements();
  require(width > 0 && x.elements() % width == 0 &&
              (factors.dtype() == x.dtype() || factors.dtype() == accumulator_of(x.dtype())),
          "scale_columns: x {} {} does not match the factors {} {}",
          name_of(x.dtype()),
          x.shape(),
          name_of(factors.dtype()),
          factors.shape());
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    const auto run = [&]<typename F>(TypeTag<F>) {
      write_elements(backend,
                     x.elements(),
                     y.data<T>(),
                     ScaleColumn<T, F>{width, x.data<T>(), factors.data<F>()});
    };
    if (factors.dtype() == x.dtype())
      run(TypeTag<T>());
    else
      run(TypeTag<Accumulator<T>>());
  });
}

template <typename Backend>
void multiply_on(Backend backend, const Tensor& a, const Tensor& b, const Tensor& out) {
  require_same_shape("multiply", a, b);
  require_same_shape("multiply", a, out);
  with_floating_type(a.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend, a.elements(), out.data<T>(), Multiply<T>{a.data<T>(), b.data<T>()});
  });
}

}  // namespace longspan
