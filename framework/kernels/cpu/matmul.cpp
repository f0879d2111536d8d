#include "framework/kernels/matmul.h"

#include "framework/kernels/cpu/matmul_onednn.h"
#include "framework/kernels/cpu/matmul_plain.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

std::string described(const Tensor& tensor, bool transposed) {
  return fmt::format("{} {}{}",
                     name_of(tensor.dtype()),
                     tensor.shape().to_string(),
                     transposed ? " transposed" : "");
}

MatmulExtents extents_of(const Matmul& matmul) {
  const Shape &a = matmul.a.shape(), &b = matmul.b.shape(), &c = matmul.c.shape();
  require(a.dimensions() > 0 && b.dimensions() > 0 && c.dimensions() > 0,
          "matmul: a matrix has no axis");
  const MatmulExtents extents{c.rows(), matmul.transpose_a ? a.rows() : a.width(), c.width()};
  const auto [m, k, n] = extents;
  require((matmul.transpose_a ? a.width() : a.rows()) == m &&
              (matmul.transpose_b ? b.width() : b.rows()) == k &&
              (matmul.transpose_b ? b.rows() : b.width()) == n,
          "matmul: a is {}, b {} and c {}, wanted [m, k], [k, n] and [m, n]",
          described(matmul.a, matmul.transpose_a),
          described(matmul.b, matmul.transpose_b),
          described(matmul.c, false));
  return extents;
}

void require_dtypes(const Matmul& matmul, std::int64_t n) {
  const DType dtype = matmul.a.dtype(), wide = accumulator_of(dtype);
  require(is_floating(dtype) && matmul.b.dtype() == dtype &&
              (matmul.c.dtype() == dtype || matmul.c.dtype() == wide),
          "matmul: a is {}, b {} and c {}, wanted one floating dtype, c that or its accumulator",
          name_of(dtype),
          name_of(matmul.b.dtype()),
          name_of(matmul.c.dtype()));
  if (matmul.bias.defined())
    require(matmul.bias.elements() == n &&
                (matmul.bias.dtype() == dtype || matmul.bias.dtype() == wide),
            "matmul: the bias is {}, wanted [{}] of {} or its accumulator",
            described(matmul.bias, false),
            n,
            name_of(dtype));
  require(!matmul.accumulate || (!matmul.bias.defined() && matmul.activation == Activation::none),
          "matmul: a product that is added to c has neither bias nor activation");
}

Tensor widened(Cpu cpu, const Tensor& narrow) {
  const Tensor wide =
      Tensor::empty(narrow.shape(), DType::f32, narrow.device(), MemoryTag::workspace);
  if (!cpu.state->dry()) scale(cpu, 1, narrow, wide);
  return wide;
}

// The product in f32 from converted copies: for dtypes the processor does not multiply.
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
  if (cpu.state->dry()) return;
  matmul_onednn(cpu, wide, extents);
  if (narrow_result) scale(cpu, 1, wide.c, matmul.c);
}

}  // namespace

void matmul(Cpu cpu, const Matmul& matmul) {
  const MatmulExtents extents = extents_of(matmul);
  require_dtypes(matmul, extents.n);
  if (extents.m == 0 || extents.n == 0) return;
  const DType dtype = matmul.a.dtype();
  const bool converts =
      dtype != DType::f64 && dtype != DType::f32 && !(dtype == DType::bf16 && bf16_is_native());
  if (cpu.state->dry()) {
    const auto [m, k, n] = extents;
    cpu.state->count_flops(2.0 * static_cast<double>(m) * static_cast<double>(k) *
                           static_cast<double>(n));
    if (converts) matmul_converted(cpu, matmul, extents);
    return;
  }
  if (dtype == DType::f64 || extents.k == 0)
    matmul_plain(matmul, extents);
  else if (!converts)
    matmul_onednn(cpu, matmul, extents);
  else
    matmul_converted(cpu, matmul, extents);
  if (matmul.activation != Activation::none) activate(cpu, matmul.activation, matmul.c, matmul.c);
}

}  // namespace longspan
