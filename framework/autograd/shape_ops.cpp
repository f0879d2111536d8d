#include "framework/autograd/dtypes.h"
#include "framework/autograd/ops.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/rows.h"

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

Variable apply_rotary(Variable&& x, RotaryLayout pairs, const Tensor& table) {
  const Variable given = std::move(x);
  RotaryArguments turning = {.pairs = pairs, .x = given.value(), .table = table, .y = {}};
  // `given` and this call are owners.
  turning.y = given.value().has_use_count(2) ? given.value() : given.value().empty_like();
  on(table.device(), [&](auto backend) { apply_rotary(backend, turning); });
  return record(turning.y, {given}, [pairs, table](BackwardContext& gradients) {
    if (!gradients.needs_gradient(0)) return;
    const Tensor dx = gradients.release_output();
    const RotaryArguments back = {
        .pairs = pairs, .inverse = true, .x = dx, .table = table, .y = dx};
    on(table.device(), [&](auto backend) { apply_rotary(backend, back); });
    gradients.set(0, dx);
  });
}

}  // namespace longspan
