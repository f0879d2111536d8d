#include "framework/kernels/elementwise.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::activation_test {
namespace {

using namespace longspan::testing;

constexpr Activation all[] = {Activation::none,
                              Activation::relu,
                              Activation::gelu,
                              Activation::gelu_tanh,
                              Activation::silu,
                              Activation::relu2};

double value(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return std::isnan(x) ? x : std::max(x, 0.0);
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::relu2:
      return x < 0 ? 0 : x * x;
  }
  return nan;
}

double slope(Activation activation, double x) {
  const double step = 1e-4;
  if (activation == Activation::relu) return x > 0 ? 1 : 0;
  if (activation == Activation::relu2) return x > 0 ? 2 * x : 0;
  // Fourth order: the remaining error is rounding.
  const auto f = [&](double at) { return value(activation, at); };
  return (8 * (f(x + step) - f(x - step)) - (f(x + 2 * step) - f(x - 2 * step))) / (12 * step);
}

template <typename T>
class ActivationTest : public ::testing::Test {};
TYPED_TEST_SUITE(ActivationTest, FloatingTypes);

TYPED_TEST(ActivationTest, MatchesFormulaAndDerivative) {
  for (const std::int64_t count : {1, 3, 17, 1000, 40001}) {
    const Values x = normal_values<TypeParam>(count, 1, 3), dy = normal_values<TypeParam>(count, 2);
    const Tensor kept = tensor_of<TypeParam>(x, {count});
    for (const auto activation : all) {
      Values expected, gradient;
      for (std::size_t i = 0; i < x.size(); ++i) {
        expected.push_back(value(activation, x[i]));
        gradient.push_back(dy[i] * slope(activation, x[i]));
      }
      const Tensor y = poisoned<TypeParam>({count}), dx = poisoned<TypeParam>({count});
      activate(backend(), activation, kept, y);
      expect_close(values_of(y), expected, tolerance<TypeParam>());
      activate_backward(backend(), activation, kept, tensor_of<TypeParam>(dy, {count}), dx);
      expect_close(values_of(dx), gradient, std::max(tolerance<TypeParam>(), 1e-10), 3);
    }
  }
}

TYPED_TEST(ActivationTest, SupportsInPlace) {
  const Values x = normal_values<TypeParam>(133, 1), dy = normal_values<TypeParam>(133, 2);
  for (const auto activation : all) {
    const Tensor kept = tensor_of<TypeParam>(x, {133}), y = poisoned<TypeParam>({133});
    const Tensor in_place = tensor_of<TypeParam>(x, {133});
    activate(backend(), activation, kept, y);
    activate(backend(), activation, in_place, in_place);
    EXPECT_TRUE(same_bits(y, in_place));
    const Tensor above = tensor_of<TypeParam>(dy, {133}), dx = poisoned<TypeParam>({133});
    activate_backward(backend(), activation, kept, above, dx);
    activate_backward(backend(), activation, kept, above, above);
    EXPECT_TRUE(same_bits(dx, above));
  }
}

TYPED_TEST(ActivationTest, ReluBackwardAcceptsOutputAsInput) {
  const Values x = normal_values<TypeParam>(99, 1);
  const Tensor kept = tensor_of<TypeParam>(x, {99}), y = poisoned<TypeParam>({99});
  activate(backend(), Activation::relu, kept, y);
  const Tensor dy = tensor_of<TypeParam>(normal_values<TypeParam>(99, 2), {99});
  const Tensor from_x = poisoned<TypeParam>({99}), from_y = poisoned<TypeParam>({99});
  activate_backward(backend(), Activation::relu, kept, dy, from_x);
  activate_backward(backend(), Activation::relu, y, dy, from_y);
  EXPECT_EQ(values_of(from_x), values_of(from_y));
}

// silu(-60) is below the smallest float16.
TYPED_TEST(ActivationTest, PropagatesNanAndDoesNotOverflow) {
  for (const auto activation : all) {
    const Tensor x = tensor_of<TypeParam>({nan, 1e4, -1e4, 60, -60}, {5});
    const Tensor y = poisoned<TypeParam>({5});
    activate(backend(), activation, x, y);
    const Values found = values_of(y), given = values_of(x);
    EXPECT_TRUE(std::isnan(found[0]));
    if (activation == Activation::relu2) continue;  // the square of 1e4 overflows in float16
    for (std::size_t i = 1; i < 5; ++i)
      EXPECT_NEAR(found[i], value(activation, given[i]), 1e-24) << static_cast<int>(activation);
    activate_backward(backend(), activation, x, tensor_of<TypeParam>({1, 1, 1, 1, 1}, {5}), y);
    const Values slopes = values_of(y);
    for (std::size_t i = 1; i < 5; ++i)
      EXPECT_NEAR(slopes[i], given[i] > 0 || activation == Activation::none ? 1 : 0, 1e-20);
  }
}

TEST(Activation, RejectsUnequalSizesAndDTypes) {
  EXPECT_THROW(activate(backend(), Activation::relu, poisoned<float>({3}), poisoned<float>({4})),
               Failure);
  EXPECT_THROW(activate(backend(), Activation::relu, poisoned<float>({3}), poisoned<double>({3})),
               Failure);
}

}  // namespace
}  // namespace longspan::activation_test
