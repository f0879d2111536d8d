#include "framework/kernels/elementwise.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::tanh_test {
namespace {

using namespace longspan::testing;

template <typename T>
class TanhTest : public ::testing::Test {};
TYPED_TEST_SUITE(TanhTest, FloatingTypes);

TYPED_TEST(TanhTest, MatchesStdTanhAndDerivative) {
  for (const std::int64_t count : {1, 17, 40001}) {
    const Values x =
        values_of(tensor_of<TypeParam>(normal_values<TypeParam>(count, 1, 3), {count}));
    const Values dy = normal_values<TypeParam>(count, 2);
    Values expected, gradient;
    const Tensor y = poisoned<TypeParam>({count}), dx = poisoned<TypeParam>({count});
    tanh(backend(), tensor_of<TypeParam>(x, {count}), y);
    const Values found = values_of(y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      expected.push_back(std::tanh(x[i]));
      gradient.push_back(dy[i] * (1 - found[i] * found[i]));
    }
    expect_close(found, expected, tolerance<TypeParam>());
    tanh_backward(backend(), y, tensor_of<TypeParam>(dy, {count}), dx);
    expect_close(values_of(dx), gradient, tolerance<TypeParam>());
    // In place.
    const Tensor again = tensor_of<TypeParam>(x, {count}), d = tensor_of<TypeParam>(dy, {count});
    tanh(backend(), again, again);
    EXPECT_TRUE(same_bits(again, y));
    tanh_backward(backend(), y, d, d);
    EXPECT_TRUE(same_bits(d, dx));
  }
}

TYPED_TEST(TanhTest, PropagatesNanAndDoesNotOverflow) {
  const Tensor x = tensor_of<TypeParam>({nan, 1e4, -1e4}, {3}), y = poisoned<TypeParam>({3});
  tanh(backend(), x, y);
  const Values found = values_of(y);
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_EQ(found[1], 1);
  EXPECT_EQ(found[2], -1);
}

}  // namespace
}  // namespace longspan::tanh_test
