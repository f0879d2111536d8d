#include "framework/kernels/matmul.h"

#include "framework/kernels/element.h"

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
          "matmul: expected at least 1 dimension");
  const MatmulExtents extents{c.rows(), matmul.transpose_a ? a.rows() : a.width(), c.width()};
  const auto [m, k, n] = extents;
  require((matmul.transpose_a ? a.width() : a.rows()) == m &&
              (matmul.transpose_b ? b.width() : b.rows()) == k &&
              (matmul.transpose_b ? b.rows() : b.width()) == n,
          "matmul: expected [m, k] x [k, n] = [m, n], found {}, {} and {}",
          described(matmul.a, matmul.transpose_a),
          described(matmul.b, matmul.transpose_b),
          described(matmul.c, false));
  return extents;
}

void require_dtypes(const Matmul& matmul, const MatmulExtents& extents) {
  const auto [m, k, n] = extents;
  const DType dtype = matmul.a.dtype(), wide = accumulator_of(dtype);
  require(is_floating(dtype) && matmul.b.dtype() == dtype &&
              (matmul.c.dtype() == dtype || matmul.c.dtype() == wide),
          "matmul: expected a and b of one floating-point dtype, and c of it or its accumulator, "
          "found {}, {} and {}",
          name_of(dtype),
          name_of(matmul.b.dtype()),
          name_of(matmul.c.dtype()));
  if (matmul.bias.defined())
    require(matmul.bias.elements() == n &&
                (matmul.bias.dtype() == matmul.c.dtype() || matmul.bias.dtype() == wide),
            "matmul: expected a bias [{}] of {} or its accumulator, found {}",
            n,
            name_of(matmul.c.dtype()),
            described(matmul.bias, false));
  require(!matmul.accumulate || (!matmul.bias.defined() && matmul.activation == Activation::none),
          "matmul: accumulate does not support bias or activation");
  if (matmul.before.defined()) require_same_shape("matmul", matmul.before, matmul.c);
  require(!matmul.accumulate || !matmul.before.defined(),
          "matmul: accumulate does not support before");
  require(!matmul.derivative || (matmul.before.defined() && !matmul.bias.defined()),
          "matmul: derivative requires before and does not support bias");
  if (matmul.a_sums.defined())
    require(matmul.transpose_a && !matmul.bias.defined() && matmul.activation == Activation::none &&
                matmul.a_sums.elements() == m && matmul.a_sums.dtype() == wide,
            "matmul: expected a_sums [{}] of {} with a transposed a and no bias or activation, "
            "found {}",
            m,
            name_of(wide),
            described(matmul.a_sums, false));
}

}  // namespace

MatmulExtents check(const Matmul& matmul) {
  const MatmulExtents extents = extents_of(matmul);
  require_dtypes(matmul, extents);
  return extents;
}

}  // namespace longspan
