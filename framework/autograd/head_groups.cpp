#include "framework/autograd/head_groups.h"

#include "framework/kernels/repeat_kv.h"

namespace longspan {

Variable repeat_kv(const Variable& x, std::int64_t times) {
  if (times == 1) return x;
  const Tensor& value = x.value();
  Tensor y =
      Tensor::empty(x.shape().with(-2, x.shape()[-2] * times), value.dtype(), value.device());
  on(y.device(), [&](auto backend) { repeat_kv(backend, value, y); });
  return record(std::move(y), {x}, [shape = x.shape()](BackwardContext& gradients) {
    if (!gradients.needs_gradient(0)) return;
    const Tensor& dy = gradients.output();
    const Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
    on(dx.device(), [&](auto backend) { sum_grouped_heads(backend, dy, dx); });
    gradients.set(0, dx);
  });
}

}  // namespace longspan
