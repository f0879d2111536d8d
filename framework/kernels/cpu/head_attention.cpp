#include "framework/kernels/shared/head_attention.h"

#include "framework/kernels/cpu/each_row.h"

namespace longspan {

void dense_attention_weights(Cpu backend, const DenseAttentionWeights& call) {
  head_attention_on(backend, call);
}

void head_attention_backward(Cpu backend, const HeadAttentionGradient& call) {
  head_attention_backward_on(backend, call);
}

}  // namespace longspan
