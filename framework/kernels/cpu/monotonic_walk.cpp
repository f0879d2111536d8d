#include "framework/kernels/shared/monotonic_walk.h"

#include "framework/kernels/cpu/each_row.h"

namespace longspan {

void monotonic_attention(Cpu backend, const MonotonicAttention& call) {
  monotonic_walk_on(backend, call);
}

}  // namespace longspan
