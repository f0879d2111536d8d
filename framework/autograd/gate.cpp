#include "framework/autograd/gate.h"

#include "framework/autograd/matrix.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// Sums dlogits over the rows, with the sign of the bias in the logits.
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
                         .y = x.value().empty_like()};
  on(gating.y.device(), [&](auto backend) { gate(backend, gating); });
  return record(
      gating.y,
      {x, change, logits, bias},
      [function, x = gating.x, change = gating.change, logits = gating.logits, bias = gating.bias](
          BackwardContext& gradients) {
        GatingGradient gradient = {.function = function,
                                   .x = x,
                                   .change = change,
                                   .logits = logits,
                                   .bias = bias,
                                   .dy = gradients.release_output(),
                                   .dx = {},
                                   .dlogits = logits.empty_like()};
        gradient.dx = gradient.dy;
        if (change.defined()) gradient.dchange = change.empty_like();
        on(x.device(), [&](auto backend) { gate_backward(backend, gradient); });
        if (gradients.needs_gradient(3))
          add_bias_gradient(function, gradient.dlogits, gradients.accumulate_target(3));
        if (gradients.needs_gradient(2)) gradients.set(2, gradient.dlogits);
        if (gradients.needs_gradient(1)) gradients.set(1, gradient.dchange);
        if (gradients.needs_gradient(0)) gradients.set(0, gradient.dx);
      });
}

}  // namespace longspan
