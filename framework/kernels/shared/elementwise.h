// Backend-independent sums, multiples and casts. The backend provides `write_elements`.
#pragma once

#include "framework/kernels/element.h"
#include "framework/kernels/elementwise.h"

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

}  // namespace longspan
