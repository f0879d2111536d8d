#include "framework/autograd/power_norm.h"

#include "framework/autograd/matrix.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/power_norm.h"
#include "framework/kernels/scale_columns.h"

namespace longspan {
namespace {

Tensor zeros_like(const Tensor& x) {
  return Tensor::zeros(x.shape(), x.dtype(), x.device(), MemoryTag::workspace);
}

// Sums dy x inverse over rows, by feature.
Tensor products_of(const PowerNormGradient& call, const Tensor& counted) {
  const Tensor sums = zeros_like(call.inverse);
  on(sums.device(), [&](auto backend) {
    add_product_sums(backend, {.a = call.x, .b = call.dy, .counted = counted, .sums = sums});
    multiply(backend, sums, call.inverse, sums);
  });
  return sums;
}

}  // namespace

Variable power_norm(const Variable& x,
                    const Variable& weight,
                    const Variable& bias,
                    const PowerRows& rows,
                    std::optional<DType> dtype) {
  const Tensor& value = x.value();
  Tensor y = Tensor::empty(value.shape(), dtype.value_or(value.dtype()), value.device());
  const PowerNorm norm = {.x = matrix(value),
                          .inverse = rows.inverse,
                          .weight = weight.value(),
                          .bias = bias.value(),
                          .y = matrix(y)};
  on(y.device(), [&](auto backend) { power_norm(backend, norm); });
  return record(std::move(y),
                {x, weight, bias},
                [from = norm.x, gain = norm.weight, rows](BackwardContext& gradients) {
                  const Tensor dy = matrix(gradients.output());
                  const GradientTarget dx = gradients.needs_gradient(0)
                                                ? gradients.target(0)
                                                : GradientTarget{.tensor = from.empty_like()};
                  PowerNormGradient call = {.x = from,
                                            .inverse = rows.inverse,
                                            .weight = gain,
                                            .dy = dy,
                                            .dx = matrix(dx.tensor),
                                            .add = dx.add};
                  const Device& device = dy.device();
                  if (gradients.needs_gradient(1)) {
                    const Tensor dweight = gradients.accumulate_target(1),
                                 sums = products_of(call, {});
                    on(device, [&](auto backend) { accumulate(backend, 1, sums, dweight); });
                  }
                  if (gradients.needs_gradient(2)) {
                    const Tensor dbias = gradients.accumulate_target(2);
                    on(device, [&](auto backend) { add_column_sums(backend, dy, dbias); });
                  }
                  if (rows.slope) {
                    const Tensor products = products_of(call, rows.counted);
                    on(device, [&](auto backend) { multiply(backend, products, gain, products); });
                    call.counted = rows.counted;
                    call.slope = rows.slope(products);
                  }
                  on(device, [&](auto backend) { power_norm_backward(backend, call); });
                });
}

}  // namespace longspan
