#include "framework/autograd/hyperbolic_tangent.h"

#include "framework/kernels/hyperbolic_tangent.h"

namespace longspan {

Variable hyperbolic_tangent(const Variable& x) {
  const Tensor y = x.value().like();
  on(y.device(), [&](auto backend) { hyperbolic_tangent(backend, x.value(), y); });
  return record(Tensor(y), {x}, [y](Gradients& gradients) {
    const Tensor dx = gradients.take_output();
    on(dx.device(), [&](auto backend) { hyperbolic_tangent_backward(backend, y, dx, dx); });
    gradients.give(0, dx);
  });
}

}  // namespace longspan
