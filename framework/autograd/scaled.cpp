#include "framework/autograd/scaled.h"

#include "framework/kernels/elementwise.h"

namespace longspan {

Variable multiply_scalar(const Variable& x, double factor) {
  Tensor y = x.value().empty_like();
  on(y.device(), [&](auto backend) { scale(backend, factor, x.value(), y); });
  return record(std::move(y), {x}, [factor](BackwardContext& gradients) {
    const GradientTarget target = gradients.target(0);
    const Tensor& dy = gradients.output();
    on(dy.device(), [&](auto backend) {
      if (target.add)
        accumulate(backend, factor, dy, target.tensor);
      else
        scale(backend, factor, dy, target.tensor);
    });
  });
}

}  // namespace longspan
