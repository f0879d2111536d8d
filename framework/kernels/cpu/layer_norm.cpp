#include "framework/kernels/layer_norm.h"

#include <cmath>

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/shared/layer_norm.h"

namespace longspan {
namespace {

template <typename A>
struct Row {
  A mean;
  A rstd;
};

// Two passes: the squares are of differences from a first mean, which their sum then corrects. A
// large mean therefore causes no cancellation.
template <typename T, typename A>
Row<A> statistics(const T* x, std::int64_t width, A epsilon, bool centered) {
  const A count = static_cast<A>(width);
  if (!centered) {
    A all = 0;
#pragma omp simd reduction(+ : all)
    for (std::int64_t i = 0; i < width; ++i) all += static_cast<A>(x[i]) * static_cast<A>(x[i]);
    return {A{0}, A{1} / std::sqrt(all / count + epsilon)};
  }
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += static_cast<A>(x[i]);
  const A first = sum / count;
  A squares = 0, differences = 0;
#pragma omp simd reduction(+ : squares, differences)
  for (std::int64_t i = 0; i < width; ++i) {
    const A difference = static_cast<A>(x[i]) - first;
    differences += difference;
    squares += difference * difference;
  }
  const A correction = differences / count;
  const A variance = std::max(squares / count - correction * correction, A{0});
  return {first + correction, A{1} / std::sqrt(variance + epsilon)};
}

template <typename T, typename Y>
void forward(const LayerNorm& norm) {
  using A = Accumulator<T>;
  const AccumulatorView<A> weights(norm.weight), biases(norm.bias);
  const A *weight = weights.data(), *bias = biases.data();
  const std::int64_t rows = norm.x.shape().rows(), width = norm.x.shape().width();
  const T* x = norm.x.data<T>();
  Y* y = norm.y.data<Y>();
  A *means = norm.mean.data<A>(), *inverses = norm.rstd.data<A>();
  const A epsilon = static_cast<A>(norm.epsilon);
  const bool centered = norm.centered;
  for_rows(rows, width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* from = x + r * width;
      Y* to = y + r * width;
      const auto [mean, inverse] = statistics(from, width, epsilon, centered);
      means[r] = mean;
      inverses[r] = inverse;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i)
        put(to[i], (static_cast<A>(from[i]) - mean) * inverse * weight[i] + bias[i]);
    }
  });
}

// With g = weight dy and h = (x - mean) / deviation:
//   dx = (g - mean(g) - h mean(g h)) / deviation, or dx += that; dweight += dy h; dbias += dy.
// Without centering, the term mean(g) is omitted.
template <bool add, typename T, typename Y, typename A>
void backward_row(const T* x,
                  const Y* dy,
                  const A* weight,
                  A mean,
                  A inverse,
                  bool centered,
                  std::int64_t width,
                  T* dx,
                  A* dweight,
                  A* dbias) {
  A sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (std::int64_t i = 0; i < width; ++i) {
    const A above = static_cast<A>(dy[i]);
    const A normal = (static_cast<A>(x[i]) - mean) * inverse;
    sum += above * weight[i];
    product += above * weight[i] * normal;
    dweight[i] += above * normal;
    dbias[i] += above;
  }
  sum = centered ? sum / static_cast<A>(width) : A{0};
  product /= static_cast<A>(width);
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    const A normal = (static_cast<A>(x[i]) - mean) * inverse;
    const A own = (static_cast<A>(dy[i]) * weight[i] - sum - normal * product) * inverse;
    put(dx[i], add ? static_cast<A>(dx[i]) + own : own);
  }
}

template <bool add, typename T, typename Y>
void backward(const LayerNormGradient& norm) {
  using A = Accumulator<T>;
  const AccumulatorView<A> weights(norm.weight);
  const A* weight = weights.data();
  const std::int64_t rows = norm.x.shape().rows(), width = norm.x.shape().width();
  const T* x = norm.x.data<T>();
  const Y* dy = norm.dy.data<Y>();
  T* dx = norm.dx.data<T>();
  const A *means = norm.mean.data<A>(), *inverses = norm.rstd.data<A>();
  const bool centered = norm.centered;
  const std::int64_t block = rows_in_block(rows), blocks = (rows + block - 1) / block;
  const Tensor partial =
      Tensor::empty({2, blocks, width}, DTypeOf<A>::value, norm.x.device(), MemoryTag::workspace);
  A *weight_sums = partial.data<A>(), *bias_sums = weight_sums + blocks * width;
  for_rows(blocks, block * width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      A *dweight = weight_sums + b * width, *dbias = bias_sums + b * width;
      std::fill(dweight, dweight + width, A{0});
      std::fill(dbias, dbias + width, A{0});
      for (std::int64_t r = b * block; r < std::min(rows, (b + 1) * block); ++r)
        backward_row<add>(x + r * width,
                          dy + r * width,
                          weight,
                          means[r],
                          inverses[r],
                          centered,
                          width,
                          dx + r * width,
                          dweight,
                          dbias);
    }
  });
  add_rows_in_order(weight_sums, blocks, width, norm.dweight.data<A>());
  add_rows_in_order(bias_sums, blocks, width, norm.dbias.data<A>());
}

}  // namespace

void layer_norm(Cpu, const LayerNorm& norm) {
  check(norm);
  with_norm_types(
      norm.x, norm.y, [&]<typename T, typename Y>(TypeTag<T>, TypeTag<Y>) { forward<T, Y>(norm); });
}

void layer_norm_backward(Cpu, const LayerNormGradient& norm) {
  check(norm);
  with_norm_types(norm.x, norm.dy, [&]<typename T, typename Y>(TypeTag<T>, TypeTag<Y>) {
    norm.add ? backward<true, T, Y>(norm) : backward<false, T, Y>(norm);
  });
}

void residual_layer_norm(Cpu cpu,
                         const Tensor& base,
                         const Dropout& change,
                         const LayerNorm& norm) {
  check(base, change, norm);
  if (change.rate > 0)
    dropout_add(cpu, base, change);
  else
    add(cpu, base, change.x, change.y);
  layer_norm(cpu, norm);
}

void residual_layer_norm_backward(Cpu cpu, const LayerNormGradient& norm, const Dropout& change) {
  check(norm, change);
  layer_norm_backward(cpu, norm);
  dropout(cpu, change);
}

}  // namespace longspan
