// PowerNorm, apart from its sums over rows.
#include "framework/kernels/power_norm.h"

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

template <typename T, typename Y>
struct PowerNormAt {
  using A = Accumulator<T>;
  const T* x;
  const A* inverse;
  const A* weight;
  const A* bias;
  Y* y;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                              std::int64_t c) const {
    put(y[i], wide(x[i]) * inverse[c] * weight[c] + bias[c]);
  }
};

template <typename T, typename Y, bool moves, bool adds>
struct PowerNormBackwardAt {
  using A = Accumulator<T>;
  std::int64_t width;
  const T* x;
  const A* inverse;
  const A* weight;
  const A* counted;
  const A* slope;
  const Y* dy;
  T* dx;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                              std::int64_t c) const {
    A change = static_cast<A>(wide(dy[i])) * weight[c];
    if constexpr (moves) change -= counted[i / width] * slope[c] * wide(x[i]) * inverse[c];
    change *= inverse[c];
    if constexpr (adds) change += wide(dx[i]);
    put(dx[i], change);
  }
};

template <typename A>
struct CountRow {
  std::int64_t begin, rows, time, position;
  const std::int64_t* length;
  A* counted;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t b = i / rows, t = i % rows;
    const bool counts = length == nullptr || position + t < length[b];
    counted[b * time + begin + t] = counts ? A{1} : A{0};
  }
};

template <typename A>
struct PowerInverseAt {
  const A* squares;
  A epsilon;
  A* inverse;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t c) const {
    inverse[c] = A{1} / std::sqrt(squares[c] + epsilon);
  }
};

template <typename A>
struct PowerMeanAt {
  const A* sums;
  const A* count;
  A* means;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t c) const {
    means[c] = *count > A{0} ? sums[c] / *count : A{1};
  }
};

template <typename A>
struct MovePowerAt {
  A* square;
  A* slope;
  const A* squares;
  const A* products;
  const A* count;
  A decay, epsilon;
  bool divided_by_batch;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t c) const {
    if (!(*count > A{0})) return;
    const A rest = A{1} - decay, now = squares[c] / *count;
    const A normed = now / ((divided_by_batch ? now : square[c]) + epsilon);
    slope[c] = slope[c] * (A{1} - rest * normed) + rest * (products[c] / *count);
    square[c] = decay * square[c] + rest * now;
  }
};

}  // namespace

void power_norm(Backend backend, const PowerNorm& norm) {
  check(norm);
  with_both_types(norm.x, norm.y, [&]<typename T, typename Y>(TypeTag<T>, TypeTag<Y>) {
    using A = Accumulator<T>;
    parallel_elements(backend,
                      norm.x.shape(),
                      PowerNormAt<T, Y>{norm.x.data<T>(),
                                        norm.inverse.data<A>(),
                                        norm.weight.data<A>(),
                                        norm.bias.data<A>(),
                                        norm.y.data<Y>()});
  });
}

void power_norm_backward(Backend backend, const PowerNormGradient& norm) {
  check(norm);
  with_both_types(norm.x, norm.dy, [&]<typename T, typename Y>(TypeTag<T>, TypeTag<Y>) {
    using A = Accumulator<T>;
    const auto run = [&]<bool moves, bool adds>() {
      parallel_elements(
          backend,
          norm.x.shape(),
          PowerNormBackwardAt<T, Y, moves, adds>{norm.x.shape().width(),
                                                 norm.x.data<T>(),
                                                 norm.inverse.data<A>(),
                                                 norm.weight.data<A>(),
                                                 moves ? norm.counted.data<A>() : nullptr,
                                                 moves ? norm.slope.data<A>() : nullptr,
                                                 norm.dy.data<Y>(),
                                                 norm.dx.data<T>()});
    };
    const bool moves = norm.slope.defined();
    if (moves && norm.add) run.template operator()<true, true>();
    if (moves && !norm.add) run.template operator()<true, false>();
    if (!moves && norm.add) run.template operator()<false, true>();
    if (!moves && !norm.add) run.template operator()<false, false>();
  });
}

void count_rows(Backend backend, const CountedRows& call) {
  check(call);
  with_accumulator_type(call.counted.dtype(), [&]<typename A>(TypeTag<A>) {
    const std::int64_t rows = call.end - call.begin;
    if (rows == 0) return;
    for_each_element(backend,
                     call.counted.shape()[0] * rows,
                     CountRow<A>{call.begin,
                                 rows,
                                 call.counted.shape()[1],
                                 call.position,
                                 call.length.defined() ? call.length.data<std::int64_t>() : nullptr,
                                 call.counted.data<A>()});
  });
}

void power_inverse(Backend backend, const Tensor& squares, double epsilon, const Tensor& inverse) {
  require_same_shape("power_inverse", squares, inverse);
  with_accumulator_type(squares.dtype(), [&]<typename A>(TypeTag<A>) {
    for_each_element(
        backend,
        squares.elements(),
        PowerInverseAt<A>{squares.data<A>(), static_cast<A>(epsilon), inverse.data<A>()});
  });
}

void power_mean(Backend backend, const Tensor& sums, const Tensor& count, const Tensor& means) {
  require_same_shape("power_mean", sums, means);
  with_accumulator_type(sums.dtype(), [&]<typename A>(TypeTag<A>) {
    for_each_element(
        backend, sums.elements(), PowerMeanAt<A>{sums.data<A>(), count.data<A>(), means.data<A>()});
  });
}

void update_power_statistics(Backend backend, const PowerStatisticsUpdate& step) {
  check(step);
  with_accumulator_type(step.square.dtype(), [&]<typename A>(TypeTag<A>) {
    for_each_element(backend,
                     step.square.elements(),
                     MovePowerAt<A>{step.square.data<A>(),
                                    step.slope.data<A>(),
                                    step.squares.data<A>(),
                                    step.products.data<A>(),
                                    step.count.data<A>(),
                                    static_cast<A>(step.decay),
                                    static_cast<A>(step.epsilon),
                                    step.divided_by_batch});
  });
}

}  // namespace longspan
