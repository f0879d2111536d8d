#include "framework/kernels/attention/shared/additive.h"
#include "framework/kernels/cuda/launch.h"

namespace longspan {

void additive_attention(Cuda backend, const AdditiveAttention& call) {
  additive::run(backend, call);
}

void additive_attention_backward(Cuda backend, const AdditiveAttentionGradient& call) {
  additive::run_back(backend, call);
}

}  // namespace longspan
