#include "framework/optim/newton_schulz.h"

#include <cmath>

#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"
#include "framework/kernels/transpose.h"

namespace longspan {
namespace {

// Requires at most as many rows as columns, which makes the products of rows the smaller ones.
void orthogonalize_wide(const Tensor& x, std::int64_t iterations) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const Device& device = x.device();
  const std::int64_t rows = x.shape()[0];
  const auto square = [&] {
    return Tensor::empty({rows, rows}, x.dtype(), device, MemoryTag::workspace);
  };
  const Tensor products = square(), fourth = square(), next = x.empty_like(MemoryTag::workspace);
  const Tensor squares = Tensor::zeros({1}, DType::f64, device, MemoryTag::workspace);
  on(device, [&](auto backend) { sum_of_squares(backend, {x}, squares); });
  const double norm = std::sqrt(squares.item());
  on(device, [&](auto backend) { scale(backend, 1 / (norm + 1e-7), x, x); });
  for (std::int64_t i = 0; i < iterations; ++i) {
    dispatch_or_meta(device, [&](auto backend) {
      matmul(backend, {.a = x, .b = x, .c = products, .transpose_b = true});
      matmul(backend, {.a = products, .b = products, .c = fourth});
    });
    on(device, [&](auto backend) {
      scale(backend, c, fourth, fourth);
      accumulate(backend, b, products, fourth);
      scale(backend, a, x, next);
    });
    dispatch_or_meta(device, [&](auto backend) {
      matmul(backend, {.a = fourth, .b = x, .c = next, .accumulate = true});
    });
    x.copy_from(next);
  }
}

}  // namespace

void orthogonalize(const Tensor& matrix, std::int64_t iterations) {
  const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  if (rows <= columns) {
    orthogonalize_wide(matrix, iterations);
    return;
  }
  const Device& device = matrix.device();
  const Tensor turned =
      Tensor::empty({columns, rows}, matrix.dtype(), device, MemoryTag::workspace);
  const auto turn = [&](const Tensor& from, const Tensor& to) {
    const Shape from_shape = {1, from.shape()[0], from.shape()[1]};
    const Shape to_shape = {1, to.shape()[0], to.shape()[1]};
    on(device,
       [&](auto backend) { transpose(backend, from.reshape(from_shape), to.reshape(to_shape)); });
  };
  turn(matrix, turned);
  orthogonalize_wide(turned, iterations);
  turn(turned, matrix);
}

}  // namespace longspan
