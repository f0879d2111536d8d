#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/dense_attention_weights.h"

namespace longspan {

void dense_attention_weights(Cuda backend, const DenseAttentionWeights& call) {
  head_attention_on(backend, call);
}

void head_attention_backward(Cuda backend, const HeadAttentionGradient& call) {
  head_attention_backward_on(backend, call);
}

}  // namespace longspan
