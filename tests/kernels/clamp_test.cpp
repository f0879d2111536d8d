#include <cmath>
#include <limits>

#include "framework/kernels/elementwise.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::clamp_test {
namespace {

using namespace longspan::testing;

template <typename T>
void expect_clamped() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t count : {0, 1, 7, 40003}) {
    Values x = normal_values<T>(count, 1);
    if (count > 3) x[3] = nan;
    Values expected;
    for (const double value : x)
      expected.push_back(std::isnan(value) ? value : std::min(std::max(value, -0.5), 0.25));
    const Tensor held = tensor_of<T>(x, {count});
    clamp(backend(), held, -0.5, 0.25);
    const Values found = values_of(held);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
          << i;
  }
}

TEST(Clamp, LimitsValuesToRangeAndKeepsNan) {
  expect_clamped<float>();
  expect_clamped<double>();
}

TEST(Clamp, RejectsEmptyRangeAndNarrowDTypes) {
  const Tensor x = tensor_of<double>({1}, {1});
  EXPECT_THROW(clamp(backend(), x, 1, 0), Failure);
  EXPECT_THROW(clamp(backend(), tensor_of<BFloat16>({1}, {1}), 0, 1), Failure);
}

}  // namespace
}  // namespace longspan::clamp_test
