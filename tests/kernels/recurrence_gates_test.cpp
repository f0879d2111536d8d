#include "framework/kernels/recurrence_gates.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/element.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::kernel_recurrence_gates_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t rows = 5, heads = 3, each = 4;

double softplus_of(double x) { return std::log1p(std::exp(x)); }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// The elements after rounding to T.
template <typename T>
Values rounded(const Values& values) {
  return values_of(tensor_of<T>(values, {std::ssize(values)}));
}

template <typename T>
void check_steps() {
  using A = Accumulator<T>;
  constexpr double least = 0.4, most = 1.1;
  const Tensor x = tensor_of<T>(normal_values<double>(rows * heads, 1, 2), {rows, heads});
  const Values given = values_of(x), above = normal_values<double>(rows * heads, 2);
  const StepSize call = {.x = x, .least = least, .most = most, .d = poisoned<A>({rows, heads})};
  step_size(backend(), call);
  const StepSizeGradient gradient = {
      .forward = call, .dd = tensor_of<A>(above, {rows, heads}), .dx = poisoned<T>({rows, heads})};
  step_size_backward(backend(), gradient);
  Values d, dx;
  int limited = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double step = softplus_of(given[i]);
    const bool is_limited = step < least || step > most;
    limited += is_limited ? 1 : 0;
    d.push_back(std::clamp(step, least, most));
    dx.push_back(is_limited ? 0 : above[i] * sigmoid_of(given[i]));
  }
  EXPECT_TRUE(limited > 0 && limited < rows * heads);
  expect_close(values_of(call.d), d, tolerance<A>());
  expect_close(values_of(gradient.dx), dx, tolerance<T>());
}

TEST(RecurrenceGateKernels, ClampStepSizes) {
  check_steps<double>();
  check_steps<float>();
  check_steps<BFloat16>();
}

template <typename T>
void check_decays(bool is_step) {
  using A = Accumulator<T>;
  const Shape shape = {rows, heads * each};
  const Tensor x = tensor_of<T>(normal_values<double>(shape.elements(), 3), shape);
  const Values given = values_of(x), above = rounded<A>(normal_values<double>(shape.elements(), 4));
  const Values rates = rounded<A>(normal_values<double>(heads, 5));
  const DecayGate call = {.x = x,
                          .log_rate = tensor_of<A>(rates, {heads}),
                          .is_step = is_step,
                          .g = poisoned<A>(shape)};
  decay_gate(backend(), call);
  const DecayGateGradient gradient = {.forward = call,
                                      .dg = tensor_of<A>(above, shape),
                                      .dx = poisoned<T>(shape),
                                      .drate = poisoned<A>({rows, heads})};
  decay_gate_backward(backend(), gradient);
  Values g, dx, drate(rows * heads, 0.0);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double rate = std::exp(rates[i / each % heads]);
    g.push_back(-rate * (is_step ? given[i] : softplus_of(given[i])));
    dx.push_back(-rate * above[i] * (is_step ? 1 : sigmoid_of(given[i])));
    drate[i / each] += above[i] * g.back();
  }
  expect_close(values_of(call.g), g, tolerance<A>());
  expect_close(values_of(gradient.dx), dx, tolerance<T>());
  expect_close(values_of(gradient.drate), drate, tolerance<A>());
}

TEST(RecurrenceGateKernels, DecayByRateAndStep) {
  for (const bool is_step : {false, true}) {
    check_decays<double>(is_step);
    check_decays<float>(is_step);
    check_decays<BFloat16>(is_step);
  }
}

template <typename T>
void check_scales(bool by_row) {
  using A = Accumulator<T>;
  const Shape shape = {rows, heads, each};
  const Shape of_factor = by_row ? Shape{rows, heads} : Shape{heads};
  const Tensor x = tensor_of<T>(normal_values<double>(shape.elements(), 6), shape);
  const Tensor dy = tensor_of<T>(normal_values<double>(shape.elements(), 7), shape);
  const Values given = values_of(x), above = values_of(dy);
  const Values factors = rounded<A>(normal_values<double>(of_factor.elements(), 8));
  const HeadScale call = {
      .x = x, .factor = tensor_of<A>(factors, of_factor), .y = poisoned<T>(shape)};
  head_scale(backend(), call);
  const HeadScaleGradient gradient = {
      .forward = call, .dy = dy, .dx = poisoned<T>(shape), .dfactor = poisoned<A>({rows, heads})};
  head_scale_backward(backend(), gradient);
  Values y, dx, dfactor(rows * heads, 0.0);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double factor = factors[by_row ? i / each : i / each % heads];
    y.push_back(factor * given[i]);
    dx.push_back(factor * above[i]);
    dfactor[i / each] += given[i] * above[i];
  }
  expect_close(values_of(call.y), y, tolerance<T>());
  expect_close(values_of(gradient.dx), dx, tolerance<T>());
  expect_close(values_of(gradient.dfactor), dfactor, tolerance<A>());
}

TEST(RecurrenceGateKernels, ScaleHeads) {
  for (const bool by_row : {false, true}) {
    check_scales<double>(by_row);
    check_scales<float>(by_row);
    check_scales<BFloat16>(by_row);
  }
}

TEST(RecurrenceGateKernels, RejectOtherShapes) {
  const Tensor x = tensor_of<double>(Values(24, 0.0), {2, 3, 4});
  const Tensor factor = tensor_of<double>(Values(4, 0.0), {4});
  EXPECT_THROW(head_scale(backend(), {.x = x, .factor = factor, .y = x}), Failure);
  EXPECT_THROW(step_size(backend(), {.x = x, .least = 2, .most = 1, .d = x}), Failure);
}

}  // namespace
}  // namespace longspan::kernel_recurrence_gates_test
