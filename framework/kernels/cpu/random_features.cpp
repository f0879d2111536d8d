#include "framework/kernels/random_features.h"

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/shared/random_features.h"

namespace longspan {
namespace {

template <typename T>
void write_features(const RandomFeaturesCall& call) {
  using A = Accumulator<T>;
  const std::int64_t width = call.x.shape().width(), count = call.product.shape().width();
  const std::int64_t features = call.map.features(count);
  const A scale = static_cast<A>(call.map.scale), floor = static_cast<A>(call.map.floor);
  const A factor = A{1} / std::sqrt(static_cast<A>(count));
  for_rows(call.x.shape().rows(), features, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* const x = call.x.data<T>() + r * width;
      const A* const product = call.product.data<A>() + r * count;
      T* const out = call.out.data<T>() + r * features;
      if (call.map.map == RandomMap::relu) {
#pragma omp simd
        for (std::int64_t c = 0; c < count; ++c) {
          const A u = scale * product[c];
          put(out[c], (u > 0 ? u : A{0}) + floor);
        }
      } else if (call.map.map == RandomMap::trigonometric) {
        for (std::int64_t c = 0; c < count; ++c) {
          put(out[c], std::sin(scale * product[c]) * factor);
          put(out[count + c], std::cos(scale * product[c]) * factor);
        }
      } else {
        A squares = 0, top = product[0];
#pragma omp simd reduction(+ : squares)
        for (std::int64_t c = 0; c < width; ++c) squares += wide(x[c]) * wide(x[c]);
#pragma omp simd reduction(max : top)
        for (std::int64_t c = 0; c < count; ++c) top = product[c] > top ? product[c] : top;
        const FeatureRow<A> row(call.map, scale * top, scale * scale * squares / 2);
        call.shift.data<A>()[r] = row.shift;
#pragma omp simd
        for (std::int64_t c = 0; c < count; ++c)
          put(out[c], row.softmax(scale * product[c]) * factor);
      }
    }
  });
}

template <typename T>
void write_gradient(const RandomFeaturesGradient& call) {
  using A = Accumulator<T>;
  const std::int64_t width = call.x.shape().width(), count = call.dproduct.shape().width();
  const std::int64_t features = call.map.features(count);
  const A scale = static_cast<A>(call.map.scale), floor = static_cast<A>(call.map.floor);
  for_rows(call.x.shape().rows(), features, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* const out = call.out.data<T>() + r * features;
      const T* const dout = call.dout.data<T>() + r * features;
      T* const dproduct = call.dproduct.data<T>() + r * count;
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < count; ++c) {
        const A du = feature_gradient(call.map, floor, out, dout, count, c);
        sum += du;
        put(dproduct[c], scale * du);
      }
      const A along = call.map.map == RandomMap::softmax ? -scale * scale * sum : A{0};
      const T* const x = call.x.data<T>() + r * width;
      T* const dx = call.dx.data<T>() + r * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) put(dx[c], along * wide(x[c]));
    }
  });
}

}  // namespace

void random_features(Cpu, const RandomFeaturesCall& call) {
  check(call);
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) { write_features<T>(call); });
}

void random_features_backward(Cpu, const RandomFeaturesGradient& call) {
  check(call);
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) { write_gradient<T>(call); });
}

}  // namespace longspan
