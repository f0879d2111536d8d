#include "framework/kernels/shared/monotonic_attention.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void monotonic_attention(Cpu backend, const MonotonicAttention& call) {
  monotonic_walk_on(backend, call);
}

}  // namespace longspan
