#include "framework/autograd/cap.h"

#include "framework/kernels/cap.h"

namespace longspan {

Variable held_below(const Variable& x, double cap) {
  Tensor y = x.value().like();
  on(y.device(), [&](auto backend) { hold_below(backend, cap, x.value(), y); });
  return record(std::move(y), {x}, [cap, x = x.value()](Gradients& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor dx = dy.like();
    on(dy.device(), [&](auto backend) { hold_below_backward(backend, cap, x, dy, dx); });
    gradients.give(0, dx);
  });
}

}  // namespace longspan
