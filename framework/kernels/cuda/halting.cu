#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/halting.h"

namespace longspan {
namespace {

// One block for each row: dy . (x - before).
template <typename T, typename A>
__global__ void weight_gradients(
    std::int64_t width, const T* x, const A* before, const A* dy, A* dweights) {
  A* const scratch = shared_memory<A>();
  const std::int64_t row = blockIdx.x * width;
  A part = 0;
  for (std::int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    const A there = before == nullptr ? A{0} : before[row + c];
    part += dy[row + c] * (wide(x[row + c]) - there);
  }
  const A sum = block_reduce(part, scratch, Plus());
  if (threadIdx.x == 0) dweights[blockIdx.x] = sum;
}

}  // namespace

void sum_weight_gradients(Cuda cuda, const JoinRowsGradient& call) {
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const std::int64_t width = call.dy.shape().width();
    const A* const before =
        call.join == StateAccumulation::interpolate ? elements_or_null<A>(call.before) : nullptr;
    launch(cuda,
           row_grid<A>(call.weights.elements(), width),
           weight_gradients<T, A>,
           width,
           call.x.data<T>(),
           before,
           call.dy.data<A>(),
           call.dweights.data<A>());
  });
}

}  // namespace longspan
