// Products of two rows' elements on any backend: `write_elements` is the backend's.
#pragma once

#include "framework/kernels/element.h"
#include "framework/kernels/outer_rows.h"

namespace longspan {

template <typename T>
struct OuterElement {
  std::int64_t a, c, n;
  const T* x;
  const T* z;

  LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    const std::int64_t r = i / n, j = i % n;
    return wide(x[r * a + j % a]) * wide(z[r * c + j / a]);
  }
};

// An element of a factor's gradient: the sum over the products that it is in.
template <typename T>
struct OuterGradient {
  std::int64_t a, c, n;
  bool of_x;
  const T* other;
  const T* dy;

  LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    const std::int64_t own = of_x ? a : c, others = of_x ? c : a;
    const std::int64_t r = i / own, p = i % own;
    Accumulator<T> sum = 0;
    for (std::int64_t q = 0; q < others; ++q) {
      const std::int64_t j = of_x ? q * a + p : p * a + q;
      if (j < n) sum += wide(dy[r * n + j]) * wide(other[r * others + q]);
    }
    return sum;
  }
};

template <typename Backend>
void outer_rows_on(Backend backend, const OuterRows& outer) {
  check(outer);
  with_floating_type(outer.x.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend,
                   outer.y.elements(),
                   outer.y.data<T>(),
                   OuterElement<T>{outer.x.shape().width(),
                                   outer.z.shape().width(),
                                   outer.y.shape().width(),
                                   outer.x.data<T>(),
                                   outer.z.data<T>()});
  });
}

template <typename Backend>
void outer_rows_backward_on(Backend backend, const OuterRowsGradient& outer) {
  check(outer);
  with_floating_type(outer.x.dtype(), [&]<typename T>(TypeTag<T>) {
    const auto give = [&](bool of_x, const Tensor& other, const Tensor& to) {
      write_elements(backend,
                     to.elements(),
                     to.data<T>(),
                     OuterGradient<T>{outer.x.shape().width(),
                                      outer.z.shape().width(),
                                      outer.dy.shape().width(),
                                      of_x,
                                      other.data<T>(),
                                      outer.dy.data<T>()});
    };
    give(true, outer.z, outer.dx);
    give(false, outer.x, outer.dz);
  });
}

}  // namespace longspan
