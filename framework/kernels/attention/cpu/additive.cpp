#include "framework/kernels/attention/shared/additive.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void additive_attention(Cpu backend, const AdditiveAttention& call) {
  additive::run(backend, call);
}

void additive_attention_backward(Cpu backend, const AdditiveAttentionGradient& call) {
  additive::run_back(backend, call);
}

}  // namespace longspan
