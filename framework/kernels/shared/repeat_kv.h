// Backend-independent repetition of key heads. The backend provides `for_each_place`, which calls
// f(i, c) for every element i of the rows, with its feature c.
#pragma once

#include "framework/kernels/element.h"
#include "framework/kernels/repeat_kv.h"

namespace longspan {

// One row is a key head; its query heads start at `times` times its offset.
template <typename T>
struct RepeatHead {
  std::int64_t times, dim;
  const T* x;
  T* y;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                              std::int64_t c) const {
    const std::int64_t first = (i - c) * times + c;
    for (std::int64_t k = 0; k < times; ++k) y[first + k * dim] = x[i];
  }
};

template <typename From, typename T>
struct SumHeads {
  std::int64_t times, dim;
  const From* dy;
  T* dx;
  bool add;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                              std::int64_t c) const {
    const std::int64_t first = (i - c) * times + c;
    Accumulator<T> sum = add ? wide(dx[i]) : Accumulator<T>{0};
    for (std::int64_t k = 0; k < times; ++k) sum += wide(dy[first + k * dim]);
    put(dx[i], sum);
  }
};

// Returns the ratio of `many` heads to `few` heads.
inline std::int64_t times_of(const Tensor& few, const Tensor& many) {
  const Shape &a = few.shape(), &b = many.shape();
  const bool equal = a.dimensions() == b.dimensions() && a.dimensions() >= 3 &&
                     a.width() == b.width() &&
                     (few.dtype() == many.dtype() || accumulator_of(few.dtype()) == many.dtype());
  require(equal && a[-2] > 0 && b[-2] % a[-2] == 0 && b == a.with(-2, b[-2]),
          "repeat_kv: cannot repeat {} {} into {} {}",
          name_of(few.dtype()),
          a,
          name_of(many.dtype()),
          b);
  return b[-2] / a[-2];
}

template <typename Backend>
void repeat_heads_on(Backend backend, const Tensor& x, const Tensor& y) {
  const std::int64_t times = times_of(x, y);
  require(x.dtype() == y.dtype(), "repeat_kv: expected tensors of one dtype");
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    parallel_elements(
        backend, x.shape(), RepeatHead<T>{times, x.shape().width(), x.data<T>(), y.data<T>()});
  });
}

template <typename Backend>
void sum_heads_on(Backend backend, const Tensor& dy, const Tensor& dx, bool add) {
  const std::int64_t times = times_of(dx, dy);
  with_floating_type(dx.dtype(), [&]<typename T>(TypeTag<T>) {
    const auto sum = [&]<typename From>(TypeTag<From>) {
      parallel_elements(
          backend,
          dx.shape(),
          SumHeads<From, T>{times, dx.shape().width(), dy.data<From>(), dx.data<T>(), add});
    };
    if (dy.dtype() == dx.dtype())
      sum(TypeTag<T>());
    else
      sum(TypeTag<Accumulator<T>>());
  });
}

}  // namespace longspan
