#include "framework/kernels/cuda/each_row.h"
#include "framework/kernels/shared/monotonic_walk.h"

namespace longspan {

void monotonic_attention(Cuda backend, const MonotonicAttention& call) {
  monotonic_walk_on(backend, call);
}

}  // namespace longspan
