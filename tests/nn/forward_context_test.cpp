#include "framework/nn/forward_context.h"

#include <gtest/gtest.h>

#include "tests/support/gradient_check.h"

namespace longspan::forward_context_test {
namespace {

// Returns 1, 2, 3, ...: a decision that differs at each call.
struct Counter {
  std::int64_t made = 0;
  Tensor operator()() {
    const std::int64_t value[] = {++made};
    return Tensor::from<std::int64_t>(value, {1}, testing::backend_device());
  }
};

std::int64_t decided(const ForwardContext& pass, Counter& counter) {
  return *pass.decide([&] { return counter(); }).data<std::int64_t>();
}

TEST(DecisionCache, RecomputesWithoutStoredDecisions) {
  Counter counter;
  const ForwardContext pass = {.random = Random(1)};
  EXPECT_EQ(decided(pass, counter), 1);
  EXPECT_EQ(decided(pass, counter), 2);
}

TEST(DecisionCache, ReusesDecisionsOfEachScope) {
  Counter counter;
  ForwardContext pass = {.random = Random(1)};
  pass.decisions = std::make_shared<DecisionCache>();
  EXPECT_EQ(decided(pass.child("a"), counter), 1);
  EXPECT_EQ(decided(pass.child("b"), counter), 2);
  EXPECT_EQ(decided(pass.child("b"), counter), 2);
  EXPECT_EQ(decided(pass.child("a"), counter), 1);
  EXPECT_EQ(counter.made, 2);
}

}  // namespace
}  // namespace longspan::forward_context_test
