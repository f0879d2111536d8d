#include "framework/training_loop/stragglers.h"

#include <gtest/gtest.h>

namespace longspan::stragglers_test {
namespace {

// Of ranks that waited so many of 10 seconds.
std::string text_of(std::initializer_list<double> waited) {
  std::vector<StepWait> ranks;
  for (const double seconds : waited) ranks.push_back({10, seconds});
  return slow_ranks_text(ranks, 50);
}

TEST(StragglerDetector, OneRankForWhichAllOthersWaitIsNamed) {
  EXPECT_EQ(text_of({8.0, 8.1, 8.2, 0.2}),
            "rank 3 is slow: the others waited 81% of the time of the last 50 steps for it, and it "
            "2%");
  EXPECT_EQ(text_of({0, 5}),
            "rank 0 is slow: the others waited 50% of the time of the last 50 steps for it, and it "
            "0%");
}

TEST(StragglerDetector, HalfOfTheRanksMayBeSlow) {
  EXPECT_EQ(text_of({6, 0.5, 6, 0.3}),
            "ranks 1, 3 are slow: the others waited 60% of the time of the last 50 steps for them, "
            "and they 4%");
  // Three of four would be one that is quick.
  EXPECT_EQ(text_of({0.1, 0.1, 0.1, 8}), "");
}

TEST(StragglerDetector, RanksThatWaitAlikeAreNotSlow) {
  EXPECT_EQ(text_of({0, 0, 0, 0}), "");
  // Ranks that share cores wait much, and none for one of them.
  EXPECT_EQ(text_of({5.0, 5.5, 6.0, 6.4}), "");
  EXPECT_EQ(text_of({1.0, 3.4}), "");
}

TEST(StragglerDetector, TheSlowestAreThoseBehindTheWidestGap) {
  EXPECT_EQ(text_of({9, 9, 0.1, 3}).substr(0, 18), "ranks 2, 3 are slo");
  EXPECT_EQ(text_of({9, 9, 0.1, 6}).substr(0, 14), "rank 2 is slow");
}

}  // namespace
}  // namespace longspan::stragglers_test
