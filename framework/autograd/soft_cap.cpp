#include "framework/autograd/soft_cap.h"

#include "framework/kernels/soft_cap.h"

namespace longspan {

Variable soft_cap(const Variable& x, double cap) {
  Tensor y = x.value().empty_like();
  on(y.device(), [&](auto backend) { soft_cap(backend, cap, x.value(), y); });
  return record(std::move(y), {x}, [cap, x = x.value()](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor dx = dy.empty_like();
    on(dy.device(), [&](auto backend) { softcap_backward(backend, cap, x, dy, dx); });
    gradients.set(0, dx);
  });
}

}  // namespace longspan
