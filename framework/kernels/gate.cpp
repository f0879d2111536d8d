#include "framework/kernels/gate.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

template <typename Tensors>
void check_read(const char* kernel, const Tensors& gate) {
  require_same_shape(kernel, gate.x, gate.logits);
  require(gate.change.defined() == has_change(gate.function),
          "{}: change is {}",
          kernel,
          gate.change.defined() ? "not supported by this function" : "missing");
  if (gate.change.defined()) require_same_shape(kernel, gate.x, gate.change);
  require(gate.bias.defined() == has_bias(gate.function),
          "{}: bias is {}",
          kernel,
          gate.bias.defined() ? "not supported by this function" : "missing");
  if (gate.bias.defined())
    require(gate.bias.dtype() == accumulator_of(gate.x.dtype()) &&
                gate.bias.elements() == gate.x.shape().width(),
            "{}: bias {} {} does not match rows {} {}",
            kernel,
            name_of(gate.bias.dtype()),
            gate.bias.shape().to_string(),
            name_of(gate.x.dtype()),
            gate.x.shape().to_string());
}

}  // namespace

void check(const Gating& gate) {
  check_read("gate", gate);
  require_same_shape("gate", gate.x, gate.y);
}

void check(const GatingGradient& gate) {
  constexpr const char* kernel = "gate_backward";
  check_read(kernel, gate);
  for (const Tensor& gradient : {gate.dy, gate.dx, gate.dlogits})
    require_same_shape(kernel, gate.x, gradient);
  require(gate.dchange.defined() == has_change(gate.function),
          "{}: change requires its gradient",
          kernel);
  if (gate.dchange.defined()) require_same_shape(kernel, gate.x, gate.dchange);
}

}  // namespace longspan
