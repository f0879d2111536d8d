#include "framework/training_loop/best_step.h"

#include <gtest/gtest.h>

#include <limits>

namespace longspan::best_step_test {
namespace {

Measurement measured(double loss, double bleu) {
  return {.metric_values = {{"loss", loss, ""}, {"bleu", bleu, ""}, {"f1/noun", 3, ""}}};
}

TEST(BestTracker, MinimizesLossAndMaximizesScores) {
  BestTracker min_loss({"loss", false}), max_bleu({"bleu"});
  EXPECT_TRUE(min_loss.add(1, measured(3, 10)));
  EXPECT_TRUE(max_bleu.add(1, measured(3, 10)));
  EXPECT_TRUE(min_loss.add(2, measured(2, 10)));
  EXPECT_FALSE(max_bleu.add(2, measured(2, 10)));  // equal to the first
  EXPECT_FALSE(min_loss.add(3, measured(2.5, 11)));
  EXPECT_TRUE(max_bleu.add(3, measured(2.5, 11)));
  EXPECT_EQ(min_loss.best(), (BestStep{"loss", 2, 2}));
  EXPECT_EQ(max_bleu.best(), (BestStep{"bleu", 3, 11}));
}

TEST(BestTracker, IgnoresNonFiniteAndMissingMetrics) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  BestTracker best({"loss", false});
  EXPECT_FALSE(best.add(1, measured(std::numeric_limits<double>::quiet_NaN(), 1)));
  EXPECT_FALSE(best.add(2, measured(-infinity, 1)));
  EXPECT_FALSE(best.best());
  BestTracker decoded({"bleu"});  // no decoding without a finite loss
  EXPECT_FALSE(decoded.add(1, {.metric_values = {{"loss", infinity, ""}}}));
}

TEST(BestTracker, WithdrawRestoresPreviousBest) {
  BestTracker best({"loss", false});
  best.add(1, measured(3, 1));
  best.add(5, measured(2, 1));
  best.withdraw(4);
  EXPECT_EQ(best.best(), (BestStep{"loss", 5, 2}));
  best.withdraw(5);
  EXPECT_EQ(best.best(), (BestStep{"loss", 1, 3}));
}

TEST(BestTracker, RestoresOnlyTheSameMetric) {
  BestTracker best({"loss", false});
  best.add(5, measured(2.25, 1));
  Scalars scalars;
  best.save(scalars);
  BestTracker again({"loss", false}), other({"bleu"});
  again.restore(scalars);
  other.restore(scalars);
  EXPECT_EQ(again.best(), (BestStep{"loss", 5, 2.25}));
  EXPECT_FALSE(other.best());
  EXPECT_EQ(best_step(scalars), again.best());
  EXPECT_FALSE(best_step(Scalars()));
}

TEST(BestTracker, ReportsAvailableMetricsIfItsOwnIsMissing) {
  BestTracker best({"span_f1"});
  EXPECT_FALSE(best.add(1, measured(1, 1)));
  EXPECT_EQ(best.missing(measured(1, 1)),
            "checkpoint.best_metric: expected one of loss, bleu, found span_f1; no best checkpoint "
            "is retained");
  EXPECT_EQ(best.missing(measured(std::numeric_limits<double>::infinity(), 1)), "");
  EXPECT_EQ(BestTracker({"bleu"}).missing(measured(1, 1)), "");
}

}  // namespace
}  // namespace longspan::best_step_test
