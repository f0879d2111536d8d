#include <gtest/gtest.h>

#include "framework/training_loop/step_meter.h"

namespace longspan::stragglers_test {
namespace {

// Report on ranks that waited this many of 10 seconds.
std::string text_of(std::initializer_list<double> waited) {
  std::vector<StepWait> ranks;
  for (const double seconds : waited) ranks.push_back({10, seconds});
  return slow_ranks_text(ranks, 50);
}

TEST(StragglerDetector, NamesRankThatAllOthersWaitFor) {
  EXPECT_EQ(text_of({8.0, 8.1, 8.2, 0.2}),
            "Straggler: rank 3: in the last 50 steps the other ranks waited 81% of the time for "
            "it, it waited 2%");
  EXPECT_EQ(text_of({0, 5}),
            "Straggler: rank 0: in the last 50 steps the other ranks waited 50% of the time for "
            "it, it waited 0%");
}

TEST(StragglerDetector, NamesUpToHalfTheRanks) {
  EXPECT_EQ(text_of({6, 0.5, 6, 0.3}),
            "Straggler: ranks 1, 3: in the last 50 steps the other ranks waited 60% of the "
            "time for them, they waited 4%");
  // Three of four: one rank is fast.
  EXPECT_EQ(text_of({0.1, 0.1, 0.1, 8}), "");
}

TEST(StragglerDetector, IgnoresRanksWithSimilarWaits) {
  EXPECT_EQ(text_of({0, 0, 0, 0}), "");
  // Ranks that share cores wait much, but not for a single rank.
  EXPECT_EQ(text_of({5.0, 5.5, 6.0, 6.4}), "");
  EXPECT_EQ(text_of({1.0, 3.4}), "");
}

TEST(StragglerDetector, SplitsRanksAtWidestGap) {
  EXPECT_EQ(text_of({9, 9, 0.1, 3}).substr(0, 22), "Straggler: ranks 2, 3:");
  EXPECT_EQ(text_of({9, 9, 0.1, 6}).substr(0, 18), "Straggler: rank 2:");
}

}  // namespace
}  // namespace longspan::stragglers_test
