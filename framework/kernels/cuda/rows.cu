#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/rows.h"

namespace longspan {

void token_spans(Cuda cuda, double limit, const Tensor& x, const Tensor& bias, const Tensor& z) {
  token_spans_on(cuda, limit, x, bias, z);
}

void token_spans_backward(
    Cuda cuda, double limit, const Tensor& z, const Tensor& dz, const Tensor& dx) {
  token_spans_backward_on(cuda, limit, z, dz, dx);
}

void mask_padding(Cuda cuda, const MaskPadding& hide) { hide_rows_on(cuda, hide); }

void repeat_kv(Cuda cuda, const Tensor& x, const Tensor& y) { repeat_heads_on(cuda, x, y); }
void sum_grouped_heads(Cuda cuda, const Tensor& dy, const Tensor& dx, bool add) {
  sum_heads_on(cuda, dy, dx, add);
}

void scale_columns(Cuda cuda, const Tensor& x, const Tensor& factors, const Tensor& y) {
  scale_columns_on(cuda, x, factors, y);
}

void multiply(Cuda cuda, const Tensor& a, const Tensor& b, const Tensor& out) {
  multiply_on(cuda, a, b, out);
}

}  // namespace longspan
