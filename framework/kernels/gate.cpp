#include "framework/kernels/gate.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

template <typename Tensors>
void check_read(const char* kernel, const Tensors& gate) {
  require_alike(kernel, gate.x, gate.logits);
  require(gate.change.defined() == has_change(gate.function),
          "{}: a change is {}",
          kernel,
          gate.change.defined() ? "given to a function that has none" : "missing");
  if (gate.change.defined()) require_alike(kernel, gate.x, gate.change);
  require(gate.bias.defined() == has_bias(gate.function),
          "{}: a bias is {}",
          kernel,
          gate.bias.defined() ? "given to a function that has none" : "missing");
  if (gate.bias.defined())
    require(gate.bias.dtype() == accumulator_of(gate.x.dtype()) &&
                gate.bias.elements() == gate.x.shape().width(),
            "{}: the bias is {} {} for rows {} {}",
            kernel,
            name_of(gate.bias.dtype()),
            gate.bias.shape().to_string(),
            name_of(gate.x.dtype()),
            gate.x.shape().to_string());
}

}  // namespace

void check(const Gating& gate) {
  check_read("gate", gate);
  require_alike("gate", gate.x, gate.y);
}

void check(const GatingGradient& gate) {
  constexpr const char* kernel = "gate_backward";
  check_read(kernel, gate);
  for (const Tensor& gradient : {gate.dy, gate.dx, gate.dlogits})
    require_alike(kernel, gate.x, gradient);
  require(gate.dchange.defined() == has_change(gate.function),
          "{}: the change and its gradient go together",
          kernel);
  if (gate.dchange.defined()) require_alike(kernel, gate.x, gate.dchange);
}

}  // namespace longspan
