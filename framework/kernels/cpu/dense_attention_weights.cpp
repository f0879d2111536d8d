#include "framework/kernels/shared/dense_attention_weights.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void dense_attention_weights(Cpu backend, const DenseAttentionWeights& call) {
  head_attention_on(backend, call);
}

void head_attention_backward(Cpu backend, const HeadAttentionGradient& call) {
  head_attention_backward_on(backend, call);
}

}  // namespace longspan
