#include "framework/autograd/l2_normalize.h"

#include "framework/kernels/l2_normalize.h"

namespace longspan {

Variable l2_normalize(const Variable& x) {
  Tensor y = x.value().empty_like();
  const DType wide = accumulator_of(y.dtype());
  const Tensor inverse = Tensor::empty({y.shape().rows()}, wide, y.device());
  on(y.device(), [&](auto backend) {
    l2_normalize(backend, {.x = x.value(), .y = y, .inverse_norm = inverse});
  });
  Tensor kept = y;
  return record(std::move(y), {x}, [y = std::move(kept), inverse](BackwardContext& gradients) {
    on(y.device(), [&](auto backend) {
      l2_normalize_backward(backend,
                            {.y = y,
                             .inverse_norm = inverse,
                             .dy = gradients.output(),
                             .dx = gradients.accumulate_target(0)});
    });
  });
}

}  // namespace longspan
