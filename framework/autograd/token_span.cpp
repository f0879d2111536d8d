#include "framework/autograd/token_span.h"

#include "framework/autograd/dtypes.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/token_span.h"

namespace longspan {

Variable token_spans(const Variable& x, const Variable& bias, double limit) {
  const Tensor& value = x.value();
  const Tensor z = empty_accumulator(value, value.shape());
  on(z.device(), [&](auto backend) { token_spans(backend, limit, value, bias.value(), z); });
  return record(z, {x, bias}, [z, limit, dtype = value.dtype()](BackwardContext& gradients) {
    const Tensor dx = Tensor::empty(z.shape(), dtype, z.device());
    on(z.device(),
       [&](auto backend) { token_spans_backward(backend, limit, z, gradients.output(), dx); });
    if (gradients.needs_gradient(1)) {
      const Tensor sums = gradients.accumulate_target(1);
      const Tensor rows = dx.reshape({dx.shape().rows(), dx.shape().width()});
      on(z.device(), [&](auto backend) { add_column_sums(backend, rows, sums); });
    }
    if (gradients.needs_gradient(0)) gradients.set(0, dx);
  });
}

}  // namespace longspan
