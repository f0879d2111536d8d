// Gated hidden layers.
#include "framework/kernels/elementwise.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::gated_test {
namespace {

using namespace longspan::testing;

template <typename T>
class GatedHiddenTest : public ::testing::Test {};
TYPED_TEST_SUITE(GatedHiddenTest, FloatingTypes);

TYPED_TEST(GatedHiddenTest, MatchesActivationTimesFactorAndDerivatives) {
  for (const std::int64_t count : {0, 1, 17, 1000})
    for (const Activation activation : {Activation::none,
                                        Activation::relu,
                                        Activation::gelu,
                                        Activation::gelu_tanh,
                                        Activation::silu}) {
      const Values before = normal_values<TypeParam>(count, 1, 2),
                   factor = normal_values<TypeParam>(count, 2),
                   above = normal_values<TypeParam>(count, 3);
      // Reference from the activation kernels, in double.
      const Tensor x = tensor_of<double>(before, {count}), value = x.empty_like(),
                   slope = x.empty_like();
      activate(backend(), activation, x, value);
      activate_backward(
          backend(), activation, x, tensor_of<double>(Values(before.size(), 1), {count}), slope);
      const Values values = values_of(value), slopes = values_of(slope);
      Values expected, by_before, by_factor;
      for (std::size_t i = 0; i < before.size(); ++i) {
        expected.push_back(values[i] * factor[i]);
        by_before.push_back(above[i] * factor[i] * slopes[i]);
        by_factor.push_back(above[i] * values[i]);
      }
      const Tensor a = tensor_of<TypeParam>(before, {count}),
                   b = tensor_of<TypeParam>(factor, {count}), y = poisoned<TypeParam>({count});
      gated_hidden(backend(), {.activation = activation, .before = a, .factor = b, .y = y});
      expect_close(values_of(y), expected, tolerance<TypeParam>());
      // In place.
      gated_hidden_backward(backend(),
                            {.activation = activation,
                             .before = a,
                             .factor = b,
                             .dy = tensor_of<TypeParam>(above, {count}),
                             .dbefore = a,
                             .dfactor = b});
      expect_close(values_of(a), by_before, tolerance<TypeParam>());
      expect_close(values_of(b), by_factor, tolerance<TypeParam>());
    }
}

}  // namespace
}  // namespace longspan::gated_test
