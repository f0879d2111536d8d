#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/token_span.h"

namespace longspan {

void token_spans(Cuda cuda, double limit, const Tensor& x, const Tensor& bias, const Tensor& z) {
  token_spans_on(cuda, limit, x, bias, z);
}

void token_spans_backward(
    Cuda cuda, double limit, const Tensor& z, const Tensor& dz, const Tensor& dx) {
  token_spans_backward_on(cuda, limit, z, dz, dx);
}

}  // namespace longspan
