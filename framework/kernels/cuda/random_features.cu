#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/random_features.h"
#include "framework/kernels/shared/random_features.h"

namespace longspan {
namespace {

// One block for each row.
template <typename T, typename A>
__global__ void write_features(RandomFeatures map,
                               std::int64_t width,
                               std::int64_t count,
                               const T* x,
                               const A* product,
                               T* out,
                               A* shift) {
  A* const scratch = shared_memory<A>();
  const std::int64_t features = map.map == RandomMap::trigonometric ? 2 * count : count;
  const A scale = static_cast<A>(map.scale), factor = A{1} / std::sqrt(static_cast<A>(count));
  x += blockIdx.x * width;
  product += blockIdx.x * count;
  out += blockIdx.x * features;
  A squares = 0, top = product[0];
  if (map.map == RandomMap::softmax) {
    for (std::int64_t c = threadIdx.x; c < width; c += blockDim.x)
      squares += wide(x[c]) * wide(x[c]);
    for (std::int64_t c = threadIdx.x; c < count; c += blockDim.x) top = Max()(top, product[c]);
    squares = block_reduce(squares, scratch, Plus());
    top = block_reduce(top, scratch, Max());
  }
  const FeatureRow<A> row(map, scale * top, scale * scale * squares / 2);
  if (map.map == RandomMap::softmax && threadIdx.x == 0) shift[blockIdx.x] = row.shift;
  for (std::int64_t c = threadIdx.x; c < count; c += blockDim.x) {
    const A u = scale * product[c];
    if (map.map == RandomMap::softmax) {
      put(out[c], row.softmax(u) * factor);
    } else if (map.map == RandomMap::relu) {
      put(out[c], (u > 0 ? u : A{0}) + static_cast<A>(map.floor));
    } else {
      put(out[c], std::sin(u) * factor);
      put(out[count + c], std::cos(u) * factor);
    }
  }
}

template <typename T>
__global__ void write_gradient(RandomFeatures map,
                               std::int64_t width,
                               std::int64_t count,
                               const T* x,
                               const T* out,
                               const T* dout,
                               T* dproduct,
                               T* dx) {
  using A = Accumulator<T>;
  A* const scratch = shared_memory<A>();
  const std::int64_t features = map.map == RandomMap::trigonometric ? 2 * count : count;
  const A scale = static_cast<A>(map.scale);
  A sum = 0;
  for (std::int64_t c = threadIdx.x; c < count; c += blockDim.x) {
    const A du = feature_gradient(map,
                                  static_cast<A>(map.floor),
                                  out + blockIdx.x * features,
                                  dout + blockIdx.x * features,
                                  count,
                                  c);
    sum += du;
    put(dproduct[blockIdx.x * count + c], scale * du);
  }
  sum = block_reduce(sum, scratch, Plus());
  const A along = map.map == RandomMap::softmax ? -scale * scale * sum : A{0};
  for (std::int64_t c = threadIdx.x; c < width; c += blockDim.x)
    put(dx[blockIdx.x * width + c], along * wide(x[blockIdx.x * width + c]));
}

}  // namespace

void random_features(Cuda cuda, const RandomFeaturesCall& call) {
  check(call);
  const std::int64_t width = call.x.shape().width(), count = call.product.shape().width();
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    launch(cuda,
           row_grid<A>(call.x.shape().rows(), count),
           write_features<T, A>,
           call.map,
           width,
           count,
           static_cast<const T*>(call.x.data<T>()),
           static_cast<const A*>(call.product.data<A>()),
           call.out.data<T>(),
           call.shift.defined() ? call.shift.data<A>() : nullptr);
  });
}

void random_features_backward(Cuda cuda, const RandomFeaturesGradient& call) {
  check(call);
  const std::int64_t width = call.x.shape().width(), count = call.dproduct.shape().width();
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    launch(cuda,
           row_grid<Accumulator<T>>(call.x.shape().rows(), count),
           write_gradient<T>,
           call.map,
           width,
           count,
           static_cast<const T*>(call.x.data<T>()),
           static_cast<const T*>(call.out.data<T>()),
           static_cast<const T*>(call.dout.data<T>()),
           call.dproduct.data<T>(),
           call.dx.data<T>());
  });
}

}  // namespace longspan
