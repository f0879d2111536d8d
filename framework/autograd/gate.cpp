#include "framework/autograd/gate.h"

#include "framework/autograd/matrix.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// The sum of dlogits over the rows, with the sign that the bias has beside the logits.
void add_bias_gradient(GateFunction function, const Tensor& dlogits, const Tensor& dbias) {
  const bool added = function == GateFunction::highway;
  const Tensor sums = added ? dbias : Tensor::zeros(dbias.shape(), dbias.dtype(), dbias.device());
  on(dlogits.device(), [&](auto backend) {
    add_column_sums(backend, matrix(dlogits), sums);
    if (!added) accumulate(backend, -1, sums, dbias);
  });
}

}  // namespace

Variable gate(GateFunction function,
              const Variable& x,
              const Variable& change,
              const Variable& logits,
              const Variable& bias) {
  const Gating gating = {.function = function,
                         .x = x.value(),
                         .change = change.value(),
                         .logits = logits.value(),
                         .bias = bias.value(),
                         .y = x.value().like()};
  on(gating.y.device(), [&](auto backend) { gate(backend, gating); });
  return record(
      gating.y,
      {x, change, logits, bias},
      [function, x = gating.x, change = gating.change, logits = gating.logits, bias = gating.bias](
          Gradients& gradients) {
        GatingGradient gradient = {.function = function,
                                   .x = x,
                                   .change = change,
                                   .logits = logits,
                                   .bias = bias,
                                   .dy = gradients.take_output(),
                                   .dx = {},
                                   .dlogits = logits.like()};
        gradient.dx = gradient.dy;
        if (change.defined()) gradient.dchange = change.like();
        on(x.device(), [&](auto backend) { gate_backward(backend, gradient); });
        if (gradients.wanted(3))
          add_bias_gradient(function, gradient.dlogits, gradients.target_to_add(3));
        if (gradients.wanted(2)) gradients.give(2, gradient.dlogits);
        if (gradients.wanted(1)) gradients.give(1, gradient.dchange);
        if (gradients.wanted(0)) gradients.give(0, gradient.dx);
      });
}

}  // namespace longspan
