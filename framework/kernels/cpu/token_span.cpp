#include "framework/kernels/shared/token_span.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void token_spans(Cpu cpu, double limit, const Tensor& x, const Tensor& bias, const Tensor& z) {
  token_spans_on(cpu, limit, x, bias, z);
}

void token_spans_backward(
    Cpu cpu, double limit, const Tensor& z, const Tensor& dz, const Tensor& dx) {
  token_spans_backward_on(cpu, limit, z, dz, dx);
}

}  // namespace longspan
