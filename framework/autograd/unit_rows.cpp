#include "framework/autograd/unit_rows.h"

#include "framework/kernels/unit_rows.h"

namespace longspan {

Variable unit_rows(const Variable& x) {
  Tensor y = x.value().like();
  const DType wide = accumulator_of(y.dtype());
  const Tensor inverse = Tensor::empty({y.shape().rows()}, wide, y.device());
  on(y.device(), [&](auto backend) {
    unit_rows(backend, {.x = x.value(), .y = y, .inverse_length = inverse});
  });
  Tensor kept = y;
  return record(std::move(y), {x}, [y = std::move(kept), inverse](Gradients& gradients) {
    on(y.device(), [&](auto backend) {
      unit_rows_backward(backend,
                         {.y = y,
                          .inverse_length = inverse,
                          .dy = gradients.output(),
                          .dx = gradients.target_to_add(0)});
    });
  });
}

}  // namespace longspan
