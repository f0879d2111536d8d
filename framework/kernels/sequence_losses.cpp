#include "framework/kernels/sequence_losses.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

void check_matrix(const char* kernel, const char* name, const Tensor& x) {
  require(x.shape().dimensions() == 2 && accumulator_of(x.dtype()) == x.dtype(),
          "{}: expected {} f32 or f64 [rows, width], found {} {}",
          kernel,
          name,
          name_of(x.dtype()),
          x.shape().to_string());
}

}  // namespace

void check(const WeightedRowSums& sums) {
  constexpr const char* kernel = "weighted_row_sums";
  check_matrix(kernel, "x", sums.x);
  require_tensor(kernel, "weight", sums.weight, sums.x.shape(), sums.x.dtype());
  require_tensor(kernel, "y", sums.y, {sums.x.shape()[0]}, sums.x.dtype());
}

void check(const WeightedRowSumsGradient& gradient) {
  constexpr const char* kernel = "weighted_row_sums_backward";
  const Tensor& weight = gradient.weight;
  check_matrix(kernel, "weight", weight);
  require_tensor(kernel, "dy", gradient.dy, {weight.shape()[0]}, weight.dtype());
  require_tensor(kernel, "dx", gradient.dx, weight.shape(), weight.dtype());
}

void check(const ExpectedCosts& costs) {
  constexpr const char* kernel = "expected_costs";
  const Tensor& l = costs.log_probability;
  check_matrix(kernel, "log_probability", l);
  require_tensor(kernel, "cost", costs.cost, l.shape(), l.dtype());
  require_tensor(kernel, "present", costs.present, l.shape(), DType::i64);
  require_tensor(kernel, "y", costs.y, {l.shape()[0]}, l.dtype());
  require_tensor(kernel, "slope", costs.slope, l.shape(), l.dtype());
}

}  // namespace longspan
