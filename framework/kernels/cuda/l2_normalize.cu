#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/element.h"
#include "framework/kernels/l2_normalize.h"

namespace longspan {
namespace {

// One block for each row.
template <typename T, typename A>
__global__ void divide_by_length(std::int64_t width, A epsilon, const T* x, T* y, A* inverses) {
  A* const scratch = shared_memory<A>();
  x += blockIdx.x * width;
  y += blockIdx.x * width;
  A squares = 0;
  for (std::int64_t c = threadIdx.x; c < width; c += blockDim.x) squares += wide(x[c]) * wide(x[c]);
  const A inverse = A{1} / std::sqrt(block_reduce(squares, scratch, Plus()) + epsilon);
  if (threadIdx.x == 0) inverses[blockIdx.x] = inverse;
  for (std::int64_t c = threadIdx.x; c < width; c += blockDim.x) put(y[c], wide(x[c]) * inverse);
}

template <typename T, typename D, typename A>
__global__ void add_gradient(
    std::int64_t width, const T* y, const A* inverses, const D* dy, D* dx) {
  A* const scratch = shared_memory<A>();
  y += blockIdx.x * width;
  dy += blockIdx.x * width;
  dx += blockIdx.x * width;
  A part = 0;
  for (std::int64_t c = threadIdx.x; c < width; c += blockDim.x)
    part += wide(y[c]) * static_cast<A>(wide(dy[c]));
  const A along = block_reduce(part, scratch, Plus());
  const A inverse = inverses[blockIdx.x];
  for (std::int64_t c = threadIdx.x; c < width; c += blockDim.x)
    put(dx[c],
        static_cast<A>(wide(dx[c])) + (static_cast<A>(wide(dy[c])) - along * wide(y[c])) * inverse);
}

}  // namespace

void l2_normalize(Cuda cuda, const L2Normalize& unit) {
  check(unit);
  const std::int64_t width = unit.x.shape().width();
  with_floating_type(unit.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    launch(cuda,
           row_grid<A>(unit.x.shape().rows(), width),
           divide_by_length<T, A>,
           width,
           static_cast<A>(unit.epsilon),
           unit.x.data<T>(),
           unit.y.data<T>(),
           unit.inverse_norm.data<A>());
  });
}

void l2_normalize_backward(Cuda cuda, const L2NormalizeGradient& unit) {
  check(unit);
  const std::int64_t rows = unit.y.shape().rows(), width = unit.y.shape().width();
  with_floating_type(unit.y.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const auto start = [&]<typename D>(TypeTag<D>) {
      launch(cuda,
             row_grid<A>(rows, width),
             add_gradient<T, D, A>,
             width,
             unit.y.data<T>(),
             unit.inverse_norm.data<A>(),
             unit.dy.data<D>(),
             unit.dx.data<D>());
    };
    if (unit.dy.dtype() == unit.y.dtype())
      start(TypeTag<T>());
    else
      start(TypeTag<A>());
  });
}

}  // namespace longspan
