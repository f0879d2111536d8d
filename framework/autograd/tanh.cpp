#include "framework/autograd/tanh.h"

#include "framework/kernels/tanh.h"

namespace longspan {

Variable tanh(const Variable& x) {
  const Tensor y = x.value().empty_like();
  on(y.device(), [&](auto backend) { tanh(backend, x.value(), y); });
  return record(Tensor(y), {x}, [y](BackwardContext& gradients) {
    const Tensor dx = gradients.release_output();
    on(dx.device(), [&](auto backend) { tanh_backward(backend, y, dx, dx); });
    gradients.set(0, dx);
  });
}

}  // namespace longspan
