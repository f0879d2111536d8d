#include "framework/kernels/shared/rows.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void token_spans(Cpu cpu, double limit, const Tensor& x, const Tensor& bias, const Tensor& z) {
  token_spans_on(cpu, limit, x, bias, z);
}

void token_spans_backward(
    Cpu cpu, double limit, const Tensor& z, const Tensor& dz, const Tensor& dx) {
  token_spans_backward_on(cpu, limit, z, dz, dx);
}

void mask_padding(Cpu cpu, const MaskPadding& hide) { hide_rows_on(cpu, hide); }

void repeat_kv(Cpu cpu, const Tensor& x, const Tensor& y) { repeat_heads_on(cpu, x, y); }
void sum_grouped_heads(Cpu cpu, const Tensor& dy, const Tensor& dx, bool add) {
  sum_heads_on(cpu, dy, dx, add);
}

void scale_columns(Cpu cpu, const Tensor& x, const Tensor& factors, const Tensor& y) {
  scale_columns_on(cpu, x, factors, y);
}

void multiply(Cpu cpu, const Tensor& a, const Tensor& b, const Tensor& out) {
  multiply_on(cpu, a, b, out);
}

}  // namespace longspan
