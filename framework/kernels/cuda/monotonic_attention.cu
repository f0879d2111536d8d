#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/monotonic_attention.h"

namespace longspan {

void monotonic_attention(Cuda backend, const MonotonicAttention& call) {
  monotonic_walk_on(backend, call);
}

}  // namespace longspan
