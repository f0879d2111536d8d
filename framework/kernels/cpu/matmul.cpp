#include "framework/kernels/matmul.h"

#include "framework/kernels/cpu/matmul_backends.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

Tensor widened(Cpu cpu, const Tensor& narrow) {
  const Tensor wide =
      Tensor::empty(narrow.shape(), DType::f32, narrow.device(), MemoryTag::workspace);
  if (!cpu.state->is_meta()) scale(cpu, 1, narrow, wide);
  return wide;
}

// The product in f32 from converted copies, for dtypes that the processor does not multiply.
void matmul_converted(Cpu cpu, const Matmul& matmul, const MatmulExtents& extents) {
  Matmul wide = matmul;
  wide.a = widened(cpu, matmul.a);
  wide.b = widened(cpu, matmul.b);
  if (matmul.bias.defined()) wide.bias = widened(cpu, matmul.bias);
  const bool narrow_result = matmul.c.dtype() != DType::f32;
  if (narrow_result)
    wide.c =
        matmul.accumulate
            ? widened(cpu, matmul.c)
            : Tensor::empty(matmul.c.shape(), DType::f32, matmul.c.device(), MemoryTag::workspace);
  matmul_onednn(cpu, wide, extents);
  if (narrow_result && !cpu.state->is_meta()) scale(cpu, 1, wide.c, matmul.c);
}

}  // namespace

void matmul(Cpu cpu, const Matmul& matmul) {
  const MatmulExtents extents = check(matmul);
  const bool dry = cpu.state->is_meta();
  if (matmul.a_sums.defined() && !dry) add_column_sums(cpu, matmul.a, matmul.a_sums);
  if (extents.m == 0 || extents.n == 0) return;
  const DType dtype = matmul.a.dtype();
  const bool converts =
      dtype != DType::f64 && dtype != DType::f32 && !(dtype == DType::bf16 && bf16_is_native());
  if (dry) cpu.state->count_flops(extents.flops());
  const bool keeps = matmul.before.defined() && !matmul.derivative;
  Matmul product = matmul;
  if (keeps) product.c = matmul.before;
  const bool is_plain = dtype == DType::f64 || extents.k == 0;
  if (is_plain && !dry)
    matmul_reference(product, extents);
  else if (!is_plain && !converts)
    matmul_onednn(cpu, product, extents);
  else if (!is_plain)
    matmul_converted(cpu, product, extents);
  if (dry) return;
  if (matmul.derivative)
    activate_backward(cpu, matmul.activation, matmul.before, matmul.c, matmul.c);
  else if (keeps || matmul.activation != Activation::none)
    activate(cpu, matmul.activation, product.c, matmul.c);
}

}  // namespace longspan
