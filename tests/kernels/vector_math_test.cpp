#include "framework/kernels/vector_math.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::vector_math_test {
namespace {

using namespace longspan::testing;

TEST(VectorMath, ExpIsWithinTwoUlps) {
  for (float x = -86.9f; x < 88.7f; x += 0.0037f) {
    const double exact = std::exp(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    EXPECT_NEAR(fast_exp(x), exact, 2 * unit) << "x = " << x;
  }
  EXPECT_EQ(fast_exp(0.0f), 1.0f);
}

TEST(VectorMath, ExpReturnsZeroInfinityOrNanAtExtremes) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fast_exp(-infinite), 0.0f);
  EXPECT_EQ(fast_exp(-1e4f), 0.0f);
  EXPECT_EQ(fast_exp(-87.3f), 0.0f);
  EXPECT_EQ(fast_exp(88.8f), infinite);
  EXPECT_EQ(fast_exp(infinite), infinite);
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(VectorMath, NormalDistributionIsAccurateInTheTail) {
  for (float x = -8; x < 8; x += 0.0013f) {
    const double wide = x;
    const double below = 0.5 * std::erfc(-wide / std::sqrt(2.0));
    const double density = std::exp(-wide * wide / 2) / std::sqrt(2 * std::numbers::pi);
    const auto found = normal_distribution(x);
    const double relative = 4e-7 * (1 + wide * wide);
    EXPECT_NEAR(found.below, below, std::min(2e-7, relative * below)) << "x = " << x;
    EXPECT_NEAR(found.density, density, relative * density) << "x = " << x;
  }
  EXPECT_EQ(normal_distribution(std::numeric_limits<float>::infinity()).below, 1.0f);
  EXPECT_EQ(normal_distribution(-std::numeric_limits<float>::infinity()).below, 0.0f);
  EXPECT_TRUE(std::isnan(normal_distribution(std::numeric_limits<float>::quiet_NaN()).below));
}

TEST(VectorMath, SoftplusIsWithinFourUlps) {
  for (float x = -86.9f; x < 90; x += 0.0037f) {
    const double wide = x;
    const double exact = std::max(wide, 0.0) + std::log1p(std::exp(-std::abs(wide)));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    EXPECT_NEAR(softplus(x), exact, 4 * unit) << "x = " << x;
  }
  EXPECT_EQ(softplus(-1e30f), 0.0f);
  EXPECT_EQ(softplus(1e30f), 1e30f);
  EXPECT_TRUE(std::isnan(softplus(std::numeric_limits<float>::quiet_NaN())));
}

TEST(VectorMath, SigmoidIsAccurateAndStaysInRange) {
  for (float x = -70; x < 70; x += 0.013f)
    EXPECT_NEAR(sigmoid(x), 1 / (1 + std::exp(-static_cast<double>(x))), 1.2e-7);
  EXPECT_EQ(sigmoid(1e30f), 1.0f);
  EXPECT_GT(sigmoid(-1e30f), 0.0f);
  EXPECT_TRUE(std::isnan(sigmoid(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace longspan::vector_math_test
