#include "framework/autograd/outer_rows.h"

#include "framework/kernels/outer_rows.h"

namespace longspan {

Variable outer_rows(const Variable& x, const Variable& z, std::int64_t count) {
  Tensor y = Tensor::empty(x.shape().with(-1, count), x.value().dtype(), x.value().device());
  on(y.device(),
     [&](auto backend) { outer_rows(backend, {.x = x.value(), .z = z.value(), .y = y}); });
  return record(std::move(y), {x, z}, [x = x.value(), z = z.value()](Gradients& gradients) {
    const Tensor dx = x.like(), dz = z.like();
    on(dx.device(), [&](auto backend) {
      outer_rows_backward(backend, {.x = x, .z = z, .dy = gradients.output(), .dx = dx, .dz = dz});
    });
    if (gradients.wanted(0)) gradients.give(0, dx);
    if (gradients.wanted(1)) gradients.give(1, dz);
  });
}

}  // namespace longspan
