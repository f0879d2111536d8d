#include "framework/autograd/token_span.h"

#include "framework/autograd/dtypes.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/token_span.h"

namespace longspan {

Variable token_spans(const Variable& x, const Variable& bias, double limit) {
  const Tensor& value = x.value();
  const Tensor z = empty_sums(value, value.shape());
  on(z.device(), [&](auto backend) { token_spans(backend, limit, value, bias.value(), z); });
  return record(z, {x, bias}, [z, limit, dtype = value.dtype()](Gradients& gradients) {
    const Tensor dx = Tensor::empty(z.shape(), dtype, z.device());
    on(z.device(),
       [&](auto backend) { token_spans_backward(backend, limit, z, gradients.output(), dx); });
    if (gradients.wanted(1)) {
      const Tensor sums = gradients.target_to_add(1);
      const Tensor rows = dx.reshape({dx.shape().rows(), dx.shape().width()});
      on(z.device(), [&](auto backend) { add_column_sums(backend, rows, sums); });
    }
    if (gradients.wanted(0)) gradients.give(0, dx);
  });
}

}  // namespace longspan
