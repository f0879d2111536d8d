#include "framework/kernels/l2_normalize.h"

#include <cmath>

#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

template <typename T>
void divide_by_length(const L2Normalize& unit) {
  using A = Accumulator<T>;
  const std::int64_t width = unit.x.shape().width();
  const T* x = unit.x.data<T>();
  T* y = unit.y.data<T>();
  A* inverse_length = unit.inverse_norm.data<A>();
  const A epsilon = static_cast<A>(unit.epsilon);
  for_rows(unit.inverse_norm.elements(), width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* from = x + r * width;
      T* to = y + r * width;
      A squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t c = 0; c < width; ++c)
        squares += static_cast<A>(from[c]) * static_cast<A>(from[c]);
      const A inverse = A{1} / std::sqrt(squares + epsilon);
      inverse_length[r] = inverse;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) put(to[c], static_cast<A>(from[c]) * inverse);
    }
  });
}

template <typename T, typename D>
void add_gradient(const L2NormalizeGradient& unit) {
  using A = Accumulator<T>;
  const std::int64_t width = unit.y.shape().width();
  const T* y = unit.y.data<T>();
  const A* inverse_length = unit.inverse_norm.data<A>();
  const D* dy = unit.dy.data<D>();
  D* dx = unit.dx.data<D>();
  for_rows(unit.inverse_norm.elements(), width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* unit_row = y + r * width;
      const D* from = dy + r * width;
      D* to = dx + r * width;
      A along = 0;
#pragma omp simd reduction(+ : along)
      for (std::int64_t c = 0; c < width; ++c)
        along += static_cast<A>(unit_row[c]) * static_cast<A>(from[c]);
      const A inverse = inverse_length[r];
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c)
        put(to[c],
            static_cast<A>(to[c]) +
                (static_cast<A>(from[c]) - along * static_cast<A>(unit_row[c])) * inverse);
    }
  });
}

}  // namespace

void l2_normalize(Cpu, const L2Normalize& unit) {
  check(unit);
  with_floating_type(unit.x.dtype(),
                     [&](auto tag) { divide_by_length<typename decltype(tag)::type>(unit); });
}

void l2_normalize_backward(Cpu, const L2NormalizeGradient& unit) {
  check(unit);
  with_floating_type(unit.y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (unit.dy.dtype() == unit.y.dtype())
      add_gradient<T, T>(unit);
    else
      add_gradient<T, Accumulator<T>>(unit);
  });
}

}  // namespace longspan
