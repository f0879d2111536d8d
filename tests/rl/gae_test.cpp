#include "framework/rl/gae.h"

#include <gtest/gtest.h>

namespace longspan::gae_test {
namespace {

// By hand, with discount 1/2 and lambda 1/2, so that a step back weighs a quarter.
TEST(Advantages, AreThoseOfAHandCalculation) {
  // The second step ends an episode for good, the fourth by time: what was expected of its last
  // sight, 8, counts there, and nothing of the step after.
  const double reward[] = {1, 2, 0, -1, 3};
  const double value[] = {2, 4, 6, 2, 10};
  const double next_value[] = {4, 0, 2, 8, 20};
  const bool ends[] = {false, true, false, true, false};
  const Trajectory experience = {reward, value, next_value, ends};
  // delta: 1 + 2 - 2, 2 - 4, 0 + 1 - 6, -1 + 4 - 2, 3 + 10 - 10.
  EXPECT_EQ(gae(experience, 0.5, 0.5),
            (std::vector<double>{1 - 2 * 0.25, -2, -5 + 1 * 0.25, 1, 3}));
  // With lambda 1 they are what rewards and the last value come to, less what was expected.
  EXPECT_EQ(gae(experience, 0.5, 1),
            (std::vector<double>{1 + 0.5 * 2 - 2, -2, 0 + 0.5 * (-1 + 0.5 * 8) - 6, 1, 3}));
  // Without a discount only the next reward counts.
  EXPECT_EQ(gae(experience, 0, 1), (std::vector<double>{-1, -2, -6, -3, -7}));
}

TEST(Advantages, OfNothingAreNone) { EXPECT_TRUE(gae({}, 0.9, 0.9).empty()); }

}  // namespace
}  // namespace longspan::gae_test
