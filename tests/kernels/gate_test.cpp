#include "framework/kernels/gate.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::gate_test {
namespace {

using namespace longspan::testing;
using enum GateFunction;

constexpr GateFunction all[] = {reset, input, output, highway, sigtanh, gru};

double open(double logit) { return 1 / (1 + std::exp(-logit)); }

struct Inputs {
  double x;
  double change;
  double logit;
  double bias;
};

double value(GateFunction function, const Inputs& in) {
  switch (function) {
    case reset:
      return open(in.logit) * in.x;
    case input:
      return open(in.logit) * in.x + in.change;
    case output:
      return in.x + open(in.logit - in.bias) * in.change;
    case highway:
      return open(in.logit + in.bias) * in.x + (1 - open(in.logit + in.bias)) * in.change;
    case sigtanh:
      return in.x + open(in.logit - in.bias) * std::tanh(in.change);
    case gru:
      return (1 - open(in.logit - in.bias)) * in.x +
             open(in.logit - in.bias) * std::tanh(in.change);
  }
  return nan;
}

double slope(GateFunction function, Inputs in, double Inputs::*by) {
  const double step = 1e-3;
  const auto at = [&](double distance) {
    Inputs moved = in;
    moved.*by += distance;
    return value(function, moved);
  };
  return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
}

// Random rows, and the gate calls that read them.
template <typename T>
struct Rows {
  std::int64_t count;
  std::int64_t width;
  Values x = normal_values<T>(count * width, 1);
  Values change = normal_values<T>(count * width, 2);
  Values logits = normal_values<T>(count * width, 3, 2);
  Values bias = normal_values<Accumulator<T>>(width, 4);

  Tensor of(const Values& values) const { return tensor_of<T>(values, {count, width}); }
  Tensor result() const { return poisoned<T>({count, width}); }
  Inputs at(std::size_t i) const {
    return {x[i], change[i], logits[i], bias[i % static_cast<std::size_t>(width)]};
  }
  Gating read(GateFunction function) const {
    Gating gating = {.function = function, .x = of(x), .logits = of(logits), .y = result()};
    if (has_change(function)) gating.change = of(change);
    if (has_bias(function)) gating.bias = tensor_of<Accumulator<T>>(bias, {width});
    return gating;
  }
  GatingGradient gradient(const Gating& read, const Values& dy) const {
    GatingGradient gradient = {.function = read.function,
                               .x = read.x,
                               .change = read.change,
                               .logits = read.logits,
                               .bias = read.bias,
                               .dy = of(dy),
                               .dx = result(),
                               .dlogits = result()};
    if (has_change(read.function)) gradient.dchange = result();
    return gradient;
  }
};

template <typename T>
class GateTest : public ::testing::Test {};
TYPED_TEST_SUITE(GateTest, FloatingTypes);

TYPED_TEST(GateTest, MatchesFormulaAndDerivatives) {
  for (const auto& [count, width] :
       {std::pair{1, 1}, std::pair{3, 17}, std::pair{5, 64}, std::pair{301, 130}}) {
    if (emulated && count > 100) continue;
    const Rows<TypeParam> rows = {count, width};
    const Values dy = normal_values<TypeParam>(count * width, 5);
    for (const GateFunction function : all) {
      SCOPED_TRACE(static_cast<int>(function));
      const Gating gating = rows.read(function);
      gate(backend(), gating);
      Values expected, dx, dchange, dlogits;
      for (std::size_t i = 0; i < rows.x.size(); ++i) {
        const Inputs in = rows.at(i);
        expected.push_back(value(function, in));
        dx.push_back(dy[i] * slope(function, in, &Inputs::x));
        dchange.push_back(dy[i] * slope(function, in, &Inputs::change));
        dlogits.push_back(dy[i] * slope(function, in, &Inputs::logit));
      }
      expect_close(values_of(gating.y), expected, tolerance<TypeParam>(), 2);
      const GatingGradient gradient = rows.gradient(gating, dy);
      gate_backward(backend(), gradient);
      const double relative = std::max(tolerance<TypeParam>(), 1e-10);
      expect_close(values_of(gradient.dx), dx, relative, 2);
      expect_close(values_of(gradient.dlogits), dlogits, relative, 2);
      if (has_change(function)) expect_close(values_of(gradient.dchange), dchange, relative, 2);
    }
  }
}

TYPED_TEST(GateTest, SupportsInPlace) {
  const Rows<TypeParam> rows = {7, 19};
  const Values dy = normal_values<TypeParam>(7 * 19, 5);
  for (const GateFunction function : all) {
    SCOPED_TRACE(static_cast<int>(function));
    const Gating apart = rows.read(function);
    gate(backend(), apart);
    for (Tensor Gating::*place : {&Gating::x, &Gating::change, &Gating::logits}) {
      Gating gating = rows.read(function);
      if (!(gating.*place).defined()) continue;
      gating.y = gating.*place;
      gate(backend(), gating);
      EXPECT_TRUE(same_bits(gating.y, apart.y));
    }
    const GatingGradient expected = rows.gradient(rows.read(function), dy);
    gate_backward(backend(), expected);
    GatingGradient in_place = rows.gradient(rows.read(function), dy);
    in_place.dx = in_place.dy;
    in_place.dlogits = in_place.logits;
    if (has_change(function)) in_place.dchange = in_place.change;
    gate_backward(backend(), in_place);
    EXPECT_TRUE(same_bits(in_place.dx, expected.dx));
    EXPECT_TRUE(same_bits(in_place.dlogits, expected.dlogits));
    if (has_change(function)) {
      EXPECT_TRUE(same_bits(in_place.dchange, expected.dchange));
    }
  }
}

TYPED_TEST(GateTest, PropagatesNanAndDoesNotOverflow) {
  using A = Accumulator<TypeParam>;
  for (const GateFunction function : all) {
    SCOPED_TRACE(static_cast<int>(function));
    const Values x = {1, 2, 3, nan}, change = {-100, 100, 0.5, 1};
    const auto tensor = [](const Values& values) { return tensor_of<TypeParam>(values, {1, 4}); };
    Gating gating = {.function = function,
                     .x = tensor(x),
                     .logits = tensor({1e4, -1e4, 90, 0}),
                     .y = poisoned<TypeParam>({1, 4})};
    if (has_change(function)) gating.change = tensor(change);
    if (has_bias(function)) gating.bias = tensor_of<A>({0, 0, 0, 0}, {4});
    gate(backend(), gating);
    const Values found = values_of(gating.y);
    const double logits[] = {1e4, -1e4, 90};
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(found[i], value(function, {x[i], change[i], logits[i], 0}), 1e-2);
    EXPECT_TRUE(std::isnan(found[3]));
  }
}

TEST(Gate, RejectsMismatchedInputs) {
  const Rows<float> rows = {2, 3};
  Gating gating = rows.read(gru);
  gating.bias = poisoned<float>({2});
  EXPECT_THROW(gate(backend(), gating), Failure);
  gating.bias = {};
  EXPECT_THROW(gate(backend(), gating), Failure);
  gating = rows.read(input);
  gating.change = poisoned<float>({2, 2});
  EXPECT_THROW(gate(backend(), gating), Failure);
  gating.function = reset;
  EXPECT_THROW(gate(backend(), gating), Failure);
}

}  // namespace
}  // namespace longspan::gate_test
