#include <gtest/gtest.h>

#include "framework/rl/rollouts.h"

namespace longspan::gae_test {
namespace {

// Discount 1/2 and lambda 1/2: the next advantage has weight 1/4.
TEST(Gae, MatchesManualCalculation) {
  // The second step terminates its episode. The fourth is truncated, with the value estimate 8 of
  // its last observation. Neither depends on the next step.
  const double reward[] = {1, 2, 0, -1, 3};
  const double value[] = {2, 4, 6, 2, 10};
  const double next_value[] = {4, 0, 2, 8, 20};
  const bool ends[] = {false, true, false, true, false};
  const Trajectory experience = {reward, value, next_value, ends};
  // delta: 1 + 2 - 2, 2 - 4, 0 + 1 - 6, -1 + 4 - 2, 3 + 10 - 10.
  EXPECT_EQ(gae(experience, 0.5, 0.5),
            (std::vector<double>{1 - 2 * 0.25, -2, -5 + 1 * 0.25, 1, 3}));
  // Lambda 1: discounted rewards and last value estimate, minus the value estimate.
  EXPECT_EQ(gae(experience, 0.5, 1),
            (std::vector<double>{1 + 0.5 * 2 - 2, -2, 0 + 0.5 * (-1 + 0.5 * 8) - 6, 1, 3}));
  // Discount 0: only the next reward counts.
  EXPECT_EQ(gae(experience, 0, 1), (std::vector<double>{-1, -2, -6, -3, -7}));
}

TEST(Gae, ReturnsNothingForEmptyTrajectory) { EXPECT_TRUE(gae({}, 0.9, 0.9).empty()); }

}  // namespace
}  // namespace longspan::gae_test
