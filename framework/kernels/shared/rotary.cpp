// Rotary and sinusoidal positions.
#include "framework/kernels/rotary.h"

#include <cmath>
#include <type_traits>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

// Item i is one pair of one position.
template <typename A>
struct RotationPair {
  std::int64_t first, pairs;
  double factor;
  const double* frequencies;
  A* out;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / pairs, pair = i % pairs;
    const double angle = static_cast<double>(first + row) * frequencies[pair];
    put(out[2 * row * pairs + pair], factor * cos(angle));
    put(out[(2 * row + 1) * pairs + pair], factor * sin(angle));
  }
};

// One head of one position. Items below `pairs` are pairs; the following items are unrotated
// features.
template <RotaryLayout form, bool back, typename T>
struct RotateHead {
  using A = Accumulator<T>;
  std::int64_t pairs;
  const A* cosines;
  const T* x;
  T* y;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void pair(std::int64_t i) const {
    const std::int64_t first = form == RotaryLayout::halves ? i : 2 * i;
    const std::int64_t second = form == RotaryLayout::halves ? i + pairs : 2 * i + 1;
    const A u = wide(x[first]), v = wide(x[second]);
    const A cosine = cosines[i], sine = back ? -cosines[pairs + i] : cosines[pairs + i];
    put(y[first], u * cosine - v * sine);
    put(y[second], v * cosine + u * sine);
  }
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void rest(std::int64_t i) const {
    y[i + pairs] = x[i + pairs];
  }
};

template <RotaryLayout form, bool back, typename T>
struct RotateHeads {
  std::int64_t time, heads, dim, pairs;
  const Accumulator<T>* table;
  const T* x;
  T* y;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE RotateHead<form, back, T> of(std::int64_t row) const {
    const std::int64_t position = row / heads % time;
    return {pairs, table + 2 * position * pairs, x + row * dim, y + row * dim};
  }
};

template <typename F>
void with_turning(const RotaryArguments& turning, const F& f) {
  const auto run = [&](auto form) {
    if (turning.inverse)
      f(form, std::true_type());
    else
      f(form, std::false_type());
  };
  if (turning.pairs == RotaryLayout::halves)
    run(std::integral_constant<RotaryLayout, RotaryLayout::halves>());
  else
    run(std::integral_constant<RotaryLayout, RotaryLayout::neighbors>());
}

// Item i is the sine and the cosine of one angle.
template <typename T>
struct SinusoidPair {
  SinusoidLayout layout;
  std::int64_t first, clamp, width;
  T* out;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t pairs = (width + 1) / 2, half = width / 2;
    const std::int64_t row = i / pairs, m = i % pairs;
    T* const to = out + row * width;
    const bool alternate = layout == SinusoidLayout::interleaved;
    if (m == half) return put(to[width - 1], 0.0);  // odd width
    const std::int64_t steps = half > 2 ? half - 1 : 1;
    const double exponent = layout == SinusoidLayout::halves_geometric
                                ? static_cast<double>(m) / static_cast<double>(steps)
                                : 2 * static_cast<double>(m) / static_cast<double>(width);
    const std::int64_t position = clamp >= 0 && first + row > clamp ? clamp : first + row;
    const double angle = static_cast<double>(position) * pow(10000.0, -exponent);
    const std::int64_t sine = alternate ? 2 * m : m, cosine = alternate ? 2 * m + 1 : half + m;
    put(to[sine], sin(angle));
    put(to[cosine], cos(angle));
  }
};

}  // namespace

void fill_cos_sin_table(Backend backend, const CosSinTable& rotations) {
  const std::int64_t pairs = rotations.frequencies.elements();
  const Tensor& out = rotations.out;
  require(
      pairs > 0 && out.shape().width() == 2 * pairs && out.dtype() == accumulator_of(out.dtype()),
      "fill_rotations: {} frequencies do not match a table of {} {}",
      pairs,
      name_of(out.dtype()),
      out.shape());
  with_floating_type(out.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    if constexpr (std::is_same_v<A, T>)
      for_each_element(backend,
                       out.shape().rows() * pairs,
                       RotationPair<A>{rotations.first,
                                       pairs,
                                       rotations.factor,
                                       rotations.frequencies.data<double>(),
                                       out.data<A>()});
  });
}

void apply_rotary(Backend backend, const RotaryArguments& turning) {
  const Tensor& x = turning.x;
  const Tensor& table = turning.table;
  require_same_shape("turn", x, turning.y);
  const Shape& shape = x.shape();
  require(shape.dimensions() == 4 && table.shape().dimensions() == 2 &&
              table.shape()[0] == shape[1] && table.shape()[1] % 2 == 0 &&
              table.shape()[1] <= shape[3] && table.dtype() == accumulator_of(x.dtype()),
          "rotate: x {} {} does not match the table {} {}",
          name_of(x.dtype()),
          shape,
          name_of(table.dtype()),
          table.shape());
  const std::int64_t pairs = table.shape()[1] / 2;
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    with_turning(turning, [&]<typename Form, typename Back>(Form, Back) {
      for_each_of_heads(backend,
                        shape,
                        pairs,
                        RotateHeads<Form::value, Back::value, T>{shape[1],
                                                                 shape[2],
                                                                 shape[3],
                                                                 pairs,
                                                                 table.data<Accumulator<T>>(),
                                                                 x.data<T>(),
                                                                 turning.y.data<T>()});
    });
  });
}

void fill_sinusoids(Backend backend, const Sinusoids& sinusoids) {
  const std::int64_t rows = sinusoids.out.shape().rows(), width = sinusoids.out.shape().width();
  with_floating_type(sinusoids.out.dtype(), [&]<typename T>(TypeTag<T>) {
    for_each_element(
        backend,
        rows * ((width + 1) / 2),
        SinusoidPair<T>{
            sinusoids.layout, sinusoids.first, sinusoids.clamp, width, sinusoids.out.data<T>()});
  });
}

}  // namespace longspan
