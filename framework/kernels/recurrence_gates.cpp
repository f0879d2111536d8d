#include "framework/kernels/recurrence_gates.h"

#include "framework/kernels/element.h"

namespace longspan {

void check(const StepSize& call) {
  require(is_floating(call.x.dtype()) && call.least <= call.most,
          "step size: expected a floating dtype and least <= most, found {}, {} and {}",
          name_of(call.x.dtype()),
          call.least,
          call.most);
  if (call.d.defined())
    require_tensor("step size", "d", call.d, call.x.shape(), accumulator_of(call.x.dtype()));
}

void check(const StepSizeGradient& call) {
  check(call.forward);
  const Tensor& x = call.forward.x;
  require_tensor("step size", "dd", call.dd, x.shape(), accumulator_of(x.dtype()));
  require_tensor("step size", "dx", call.dx, x.shape(), x.dtype());
}

void check(const DecayGate& call) {
  const DType sums = accumulator_of(call.x.dtype());
  const std::int64_t heads = call.log_rate.elements(), width = call.x.shape().width();
  require(is_floating(call.x.dtype()) && heads > 0 && width % heads == 0,
          "decay gate: {} features are not divisible by {} heads",
          width,
          heads);
  require_tensor("decay gate", "log_rate", call.log_rate, {heads}, sums);
  if (call.g.defined()) require_tensor("decay gate", "g", call.g, call.x.shape(), sums);
}

void check(const DecayGateGradient& call) {
  check(call.forward);
  const Tensor& x = call.forward.x;
  const DType sums = accumulator_of(x.dtype());
  require_tensor("decay gate", "dg", call.dg, x.shape(), sums);
  require_tensor("decay gate", "dx", call.dx, x.shape(), x.dtype());
  require_tensor("decay gate",
                 "drate",
                 call.drate,
                 {x.shape().rows(), call.forward.log_rate.elements()},
                 sums);
}

void check(const HeadScale& call) {
  const Shape& x = call.x.shape();
  require(is_floating(call.x.dtype()) && x.dimensions() >= 3,
          "head scale: expected x [rows, heads, n], found {} {}",
          name_of(call.x.dtype()),
          x);
  const std::int64_t heads = x[-2];
  require((call.factor.elements() == heads || call.factor.elements() * x.width() == x.elements()) &&
              call.factor.shape().width() == heads &&
              call.factor.dtype() == accumulator_of(call.x.dtype()),
          "head scale: expected a factor [rows, heads] or [heads] of {} heads, found {} {}",
          heads,
          name_of(call.factor.dtype()),
          call.factor.shape());
  if (call.y.defined()) require_tensor("head scale", "y", call.y, x, call.x.dtype());
}

void check(const HeadScaleGradient& call) {
  check(call.forward);
  const Tensor& x = call.forward.x;
  require_tensor("head scale", "dy", call.dy, x.shape(), x.dtype());
  if (call.dx.defined()) require_tensor("head scale", "dx", call.dx, x.shape(), x.dtype());
  if (call.dfactor.defined())
    require(call.dfactor.elements() * x.shape().width() == x.elements() &&
                call.dfactor.dtype() == accumulator_of(x.dtype()),
            "head scale: expected dfactor [rows, heads] for x {}, found {} {}",
            x.shape(),
            name_of(call.dfactor.dtype()),
            call.dfactor.shape());
}

}  // namespace longspan
