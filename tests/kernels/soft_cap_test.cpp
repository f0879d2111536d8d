#include <cmath>

#include "framework/kernels/elementwise.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::soft_cap_test {
namespace {

using namespace longspan::testing;

template <typename T>
class SoftCapTest : public ::testing::Test {};
TYPED_TEST_SUITE(SoftCapTest, FloatingTypes);

TYPED_TEST(SoftCapTest, MatchesScaledTanhAndDerivative) {
  for (const std::int64_t count : {0, 1, 17, 5000}) {
    Values x = normal_values<TypeParam>(count, 1), y, dx;
    for (double& value : x) value = rounded<TypeParam>(40 * value);
    if (count > 3) x[3] = rounded<TypeParam>(1e-3);
    const Values dy = normal_values<TypeParam>(count, 2);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double part = std::tanh(x[i] / 30);
      y.push_back(30 * part);
      dx.push_back(dy[i] * (1 - part * part));
    }
    const Tensor from = tensor_of<TypeParam>(x, {count}), to = poisoned<TypeParam>({count});
    soft_cap(backend(), 30, from, to);
    expect_close(values_of(to), y, tolerance<TypeParam>(), 1e-3);
    softcap_backward(backend(), 30, from, tensor_of<TypeParam>(dy, {count}), to);
    // A slope close to 0 is 1 minus a value close to 1.
    expect_close(values_of(to), dx, tolerance<TypeParam>(), 1);
  }
}

}  // namespace
}  // namespace longspan::soft_cap_test
