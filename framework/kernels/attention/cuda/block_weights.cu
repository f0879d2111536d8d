#include "framework/kernels/attention/shared/block_weights.h"
#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/launch.h"

namespace longspan {
namespace {

// A Team of one block for each matrix.
struct BlockTeam {
  __device__ std::int64_t first() const { return threadIdx.x; }
  __device__ std::int64_t size() const { return blockDim.x; }
  __device__ void wait() const { __syncthreads(); }
};

template <typename A>
__global__ void weigh(SinkhornMatrix<A> matrix) {
  weigh_matrix(BlockTeam(), matrix, blockIdx.x);
}

template <typename A>
__global__ void weigh_backward(SinkhornMatrix<A> matrix, const A* dweights, A* dscores, A* totals) {
  weigh_matrix_backward(BlockTeam(), matrix, dweights, dscores, totals, blockIdx.x);
}

}  // namespace

void sinkhorn_weights(Cuda cuda, const SinkhornWeights& sinkhorn) {
  check(sinkhorn);
  with_accumulator_type(sinkhorn.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    launch(cuda, {.blocks = sinkhorn.scores.shape()[0]}, weigh<A>, SinkhornMatrix<A>(sinkhorn));
  });
}

void sinkhorn_weights_backward(Cuda cuda, const SinkhornWeightsGradient& gradient) {
  check(gradient);
  with_accumulator_type(gradient.forward.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    const A* const dweights = gradient.dweights.data<A>();
    launch(cuda,
           {.blocks = gradient.forward.scores.shape()[0]},
           weigh_backward<A>,
           SinkhornMatrix<A>(gradient.forward),
           dweights,
           gradient.dscores.data<A>(),
           gradient.totals.data<A>());
  });
}

}  // namespace longspan
