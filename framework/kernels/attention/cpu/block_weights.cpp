#include "framework/kernels/attention/shared/block_weights.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

// A Team of one thread for each matrix.
struct Alone {
  std::int64_t first() const { return 0; }
  std::int64_t size() const { return 1; }
  void wait() const {}
};

// Cost of a matrix in elements: every step passes over all of them.
std::int64_t cost_of(const SinkhornWeights& sinkhorn) {
  const std::int64_t blocks = sinkhorn.scores.shape()[1];
  return blocks * blocks * 2 * sinkhorn.iterations;
}

}  // namespace

void sinkhorn_weights(Cpu, const SinkhornWeights& sinkhorn) {
  check(sinkhorn);
  with_accumulator_type(sinkhorn.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    const SinkhornMatrix<A> matrix(sinkhorn);
    for_pieces(sinkhorn.scores.shape()[0], cost_of(sinkhorn), [&](std::int64_t n) {
      weigh_matrix(Alone(), matrix, n);
    });
  });
}

void sinkhorn_weights_backward(Cpu, const SinkhornWeightsGradient& gradient) {
  check(gradient);
  const SinkhornWeights& forward = gradient.forward;
  with_accumulator_type(forward.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    const SinkhornMatrix<A> matrix(forward);
    for_pieces(forward.scores.shape()[0], cost_of(forward), [&](std::int64_t n) {
      weigh_matrix_backward(Alone(),
                            matrix,
                            gradient.dweights.data<A>(),
                            gradient.dscores.data<A>(),
                            gradient.totals.data<A>(),
                            n);
    });
  });
}

}  // namespace longspan
