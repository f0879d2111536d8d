#include "framework/kernels/shared/scale_columns.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void scale_columns(Cpu cpu, const Tensor& x, const Tensor& factors, const Tensor& y) {
  scale_columns_on(cpu, x, factors, y);
}

void multiply(Cpu cpu, const Tensor& a, const Tensor& b, const Tensor& out) {
  multiply_on(cpu, a, b, out);
}

}  // namespace longspan
