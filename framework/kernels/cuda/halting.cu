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

void decide_halting(Cuda cuda, const HaltingDecision& call) { decide_halting_on(cuda, call); }
void halting_weights(Cuda cuda, const HaltingWeights& call) { halting_weights_on(cuda, call); }
void halting_weights_backward(Cuda cuda, const HaltingWeightsGradient& call) {
  halting_weights_backward_on(cuda, call);
}
void accumulate_states(Cuda cuda, const JoinRows& call) { join_rows_on(cuda, call); }
void select_rows(Cuda cuda, const ChooseRows& call) { choose_rows_on(cuda, call); }

void join_rows_backward(Cuda cuda, const JoinRowsGradient& call) {
  check(call);
  // Must precede the writes to dbefore, which may alias dy.
  if (call.dweights.defined())
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
  join_rows_backward_on(cuda, call);
}

}  // namespace longspan
