#include "framework/kernels/halting.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

void require_positions(const char* kernel, const Tensor& logits, const Tensor& tensor) {
  require(tensor.dtype() == logits.dtype() && tensor.elements() == logits.elements(),
          "{}: {} logits {} do not match {} elements {}",
          kernel,
          logits.elements(),
          name_of(logits.dtype()),
          tensor.elements(),
          name_of(tensor.dtype()));
}

void require_decisions(const char* kernel, const Tensor& decisions, std::int64_t positions) {
  require(decisions.dtype() == DType::u8 && decisions.elements() == positions,
          "{}: {} decisions {} do not match {} positions",
          kernel,
          decisions.elements(),
          name_of(decisions.dtype()),
          positions);
}

void require_logits(const char* kernel, const Tensor& logits) {
  require(logits.dtype() == accumulator_of(logits.dtype()),
          "{}: expected f32 or f64 logits, found {}",
          kernel,
          name_of(logits.dtype()));
}

void require_rows(const char* kernel, const Tensor& x, DType dtype, const Tensor& tensor) {
  require(tensor.dtype() == dtype && tensor.elements() == x.elements(),
          "{}: rows {} {} do not match {} elements {}",
          kernel,
          x.shape().to_string(),
          name_of(x.dtype()),
          tensor.elements(),
          name_of(tensor.dtype()));
}

void require_weights(const char* kernel, const Tensor& x, const Tensor& weights) {
  require(weights.dtype() == accumulator_of(x.dtype()) && weights.elements() == x.shape().rows(),
          "{}: {} weights {} do not match rows {} {}",
          kernel,
          weights.elements(),
          name_of(weights.dtype()),
          x.shape().to_string(),
          name_of(x.dtype()));
}

}  // namespace

void check(const HaltingDecision& call) {
  constexpr const char* kernel = "decide_halting";
  require_logits(kernel, call.logits);
  require_positions(kernel, call.logits, call.sums);
  for (const Tensor& decisions : {call.before, call.now})
    require_decisions(kernel, decisions, call.logits.elements());
}

void check(const HaltingWeights& call) {
  constexpr const char* kernel = "halting_weights";
  require_logits(kernel, call.logits);
  for (const Tensor& tensor :
       {call.sums, call.costs, call.weights, call.next_sums, call.next_costs})
    require_positions(kernel, call.logits, tensor);
  require_decisions(kernel, call.now, call.logits.elements());
}

void check(const HaltingWeightsGradient& call) {
  constexpr const char* kernel = "halting_weights_backward";
  require_logits(kernel, call.logits);
  for (const Tensor& tensor :
       {call.dweights, call.dnext_sums, call.dnext_costs, call.dlogits, call.dsums})
    if (tensor.defined()) require_positions(kernel, call.logits, tensor);
  require_decisions(kernel, call.now, call.logits.elements());
}

void check(const JoinRows& call) {
  constexpr const char* kernel = "join_rows";
  require_weights(kernel, call.x, call.weights);
  const DType wide = accumulator_of(call.x.dtype());
  if (call.before.defined()) require_rows(kernel, call.x, wide, call.before);
  require_rows(kernel, call.x, wide, call.y);
}

void check(const JoinRowsGradient& call) {
  constexpr const char* kernel = "join_rows_backward";
  require_weights(kernel, call.x, call.weights);
  const DType wide = accumulator_of(call.x.dtype());
  require_rows(kernel, call.x, wide, call.dy);
  if (call.dx.defined()) require_rows(kernel, call.x, call.x.dtype(), call.dx);
  if (call.dbefore.defined()) require_rows(kernel, call.x, wide, call.dbefore);
  if (!call.dweights.defined()) return;
  require_weights(kernel, call.x, call.dweights);
  if (call.join == StateAccumulation::interpolate && call.before.defined())
    require_rows(kernel, call.x, wide, call.before);
}

void check(const ChooseRows& call) {
  constexpr const char* kernel = "choose_rows";
  require_decisions(kernel, call.now, call.y.shape().rows());
  for (const Tensor& rows : {call.moving, call.resting})
    if (rows.defined()) require_rows(kernel, call.y, call.y.dtype(), rows);
}

}  // namespace longspan
