// Backend-independent token-dependent spans. The backend provides `write_elements`.
#pragma once

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/token_span.h"

namespace longspan {

template <typename T>
struct TokenSpan {
  using A = Accumulator<T>;
  A limit;
  const T* x;
  const A* bias;
  std::int64_t heads;

  LONGSPAN_HOST_DEVICE A operator()(std::int64_t i) const {
    return limit / (A{1} + std::exp(-wide(x[i]) - bias[i % heads]));
  }
};

template <typename A>
struct TokenSpanGradient {
  A limit;
  const A* z;
  const A* dz;

  LONGSPAN_HOST_DEVICE A operator()(std::int64_t i) const {
    return dz[i] * z[i] * (A{1} - z[i] / limit);
  }
};

template <typename Backend>
void token_spans_on(
    Backend backend, double limit, const Tensor& x, const Tensor& bias, const Tensor& z) {
  require(x.elements() == z.elements() && z.dtype() == accumulator_of(x.dtype()) &&
              bias.dtype() == z.dtype() && bias.elements() == x.shape().width(),
          "token_spans: z {} {} and bias {} {} do not match x {} {}",
          name_of(z.dtype()),
          z.shape(),
          name_of(bias.dtype()),
          bias.shape(),
          name_of(x.dtype()),
          x.shape());
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    write_elements(
        backend,
        x.elements(),
        z.data<A>(),
        TokenSpan<T>{static_cast<A>(limit), x.data<T>(), bias.data<A>(), bias.elements()});
  });
}

template <typename Backend>
void token_spans_backward_on(
    Backend backend, double limit, const Tensor& z, const Tensor& dz, const Tensor& dx) {
  require(z.elements() == dz.elements() && z.elements() == dx.elements() &&
              z.dtype() == dz.dtype() && z.dtype() == accumulator_of(dx.dtype()),
          "token_spans_backward: dz {} {} and dx {} {} do not match z {} {}",
          name_of(dz.dtype()),
          dz.shape(),
          name_of(dx.dtype()),
          dx.shape(),
          name_of(z.dtype()),
          z.shape());
  with_floating_type(dx.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    write_elements(backend,
                   z.elements(),
                   dx.data<T>(),
                   TokenSpanGradient<A>{static_cast<A>(limit), z.data<A>(), dz.data<A>()});
  });
}

}  // namespace longspan
