#include "framework/nn/gate.h"

#include "framework/autograd/ops.h"

namespace longspan {
namespace {

GateFunction function_of(GateKind kind) {
  switch (kind) {
    case GateKind::input:
      return GateFunction::input;
    case GateKind::output:
      return GateFunction::output;
    case GateKind::highway:
      return GateFunction::highway;
    case GateKind::sigtanh:
      return GateFunction::sigtanh;
    case GateKind::gru:
      return GateFunction::gru;
    case GateKind::sum:
      break;
  }
  throw Failure("gate type sum has no parameters");
}

Variable variable_of(const Weight& weight) { return weight ? weight->variable : Variable(); }

}  // namespace

Variable Gate::Products::of(const Variable& x) const {
  return linear(x, stream->variable, variable_of(bias));
}

Variable Gate::Products::of(const Variable& of_change, const Variable& of_stream) const {
  return linear_of_two(of_change, change->variable, of_stream, stream->variable, variable_of(bias));
}

Gate::Gate(const Scope& scope, const Options& options) : kind_(options.kind) {
  if (kind_ == GateKind::sum) return;
  const Shape square = {options.width, options.width};
  const Initializer initial = Initializer::xavier(options.width, options.width);
  const auto products = [&](const Scope& place, bool of_both, bool biased) {
    Products made;
    if (of_both) made.change = place.child("change").hidden_matrix("weight", square, initial, -1);
    made.stream =
        (of_both ? place.child("stream") : place).hidden_matrix("weight", square, initial, -1);
    if (biased) made.bias = place.bias(options.width);
    return made;
  };
  const bool is_gru = kind_ == GateKind::gru;
  if (is_gru) reset_ = products(scope.child("reset"), true, options.biases);
  update_ = products(is_gru ? scope.child("update") : scope, is_gru, false);
  if (is_gru || kind_ == GateKind::sigtanh)
    candidate_ = products(scope.child("candidate"), is_gru, options.biases);
  if (kind_ != GateKind::input)
    bias_ = scope.weight(
        "bias", {options.width}, Initializer::constant(options.bias.value_or(is_gru ? 2 : 1)));
}

Variable Gate::gru(const Variable& x, const Variable& y) const {
  const Variable kept = gate(GateFunction::reset, x, {}, reset_.of(y, x), {});
  return gate(GateFunction::gru, x, candidate_.of(y, kept), update_.of(y, x), variable_of(bias_));
}

Variable Gate::operator()(const Variable& x, const Variable& y) const {
  if (kind_ == GateKind::sum) return add(x, y);
  if (kind_ == GateKind::gru) return gru(x, y);
  const bool of_change = kind_ == GateKind::sigtanh;
  return gate(function_of(kind_),
              x,
              of_change ? candidate_.of(y) : y,
              update_.of(of_change ? y : x),
              variable_of(bias_));
}

}  // namespace longspan
