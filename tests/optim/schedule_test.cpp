// Learning rates of the updates of a run.
#include "framework/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "framework/trainer/training_options.h"

namespace longspan::schedule_test {
namespace {

std::vector<double> rates(const TrainingOptions& options, std::int64_t updates) {
  const LrSchedule schedule = options.make_schedule();
  std::vector<double> all;
  for (std::int64_t update = 1; update <= updates; ++update) all.push_back(schedule.at(update));
  return all;
}

TrainingOptions options_of(ScheduleKind kind, std::int64_t steps, std::int64_t warmup) {
  TrainingOptions options;
  options.schedule = kind;
  options.steps = steps;
  options.warmup = warmup;
  options.learning_rate = 1;
  return options;
}

void expect_rates(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-15) << "update " << i + 1;
}

TEST(LrSchedule, LastUpdateHasPositiveRate) {
  for (const ScheduleKind kind : {ScheduleKind::cosine, ScheduleKind::linear})
    for (const std::int64_t steps : {1, 2, 4, 1000})
      for (const std::int64_t warmup : {std::int64_t{0}, std::int64_t{1}, steps}) {
        const std::vector<double> all = rates(options_of(kind, steps, warmup), steps);
        EXPECT_GT(all.back(), 0) << steps << " steps, warm-up " << warmup;
      }
  expect_rates(rates(options_of(ScheduleKind::linear, 4, 0), 4), {1, 0.75, 0.5, 0.25});
  expect_rates(rates(options_of(ScheduleKind::cosine, 1, 0), 1), {1});
}

TEST(LrSchedule, WarmupReachesPeakRateAtItsLastUpdate) {
  for (const ScheduleKind kind : {ScheduleKind::cosine, ScheduleKind::linear}) {
    const std::vector<double> all = rates(options_of(kind, 8, 4), 8);
    expect_rates({all.begin(), all.begin() + 4}, {0.25, 0.5, 0.75, 1});
    EXPECT_LT(all[4], 1);
  }
  expect_rates(rates(options_of(ScheduleKind::linear, 8, 4), 8),
               {0.25, 0.5, 0.75, 1, 0.8, 0.6, 0.4, 0.2});
}

TEST(LrSchedule, KeepsMinRateAfterLastUpdate) {
  TrainingOptions options = options_of(ScheduleKind::linear, 100, 0);
  options.schedule_steps = 4;
  options.end_learning_rate = 0.2;
  expect_rates(rates(options, 7), {1, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2});
}

TEST(LrSchedule, RestartsAfterLastUpdate) {
  TrainingOptions options = options_of(ScheduleKind::linear, 100, 2);
  options.schedule_steps = 5;
  options.schedule_end = ScheduleEnd::restart;
  expect_rates(rates(options, 10), {0.5, 1, 0.75, 0.5, 0.25, 1, 0.75, 0.5, 0.25, 1});
  options.schedule = ScheduleKind::warmup_stable_decay;
  options.decay_steps = 1;
  expect_rates(rates(options, 10), {0.5, 1, 1, 1, 0.5, 1, 1, 1, 0.5, 1});
}

TEST(LrSchedule, ConstantAndInverseSqrtMatchFormulas) {
  expect_rates(rates(options_of(ScheduleKind::constant, 3, 2), 3), {0.5, 1, 1});
  expect_rates(rates(options_of(ScheduleKind::inverse_sqrt, 4, 1), 4),
               {1, 1 / std::sqrt(2.0), 1 / std::sqrt(3.0), 0.5});
  expect_rates(rates(options_of(ScheduleKind::inverse_sqrt, 4, 0), 4),
               {1, 1 / std::sqrt(2.0), 1 / std::sqrt(3.0), 0.5});
}

TEST(LrSchedule, StableRunSharesPrefixWithDecayBranches) {
  TrainingOptions longer = options_of(ScheduleKind::warmup_stable_decay, 1000, 2);
  longer.decay_steps = 0;
  TrainingOptions branch = longer;
  branch.steps = 10;
  branch.decay_steps = 3;
  const std::vector<double> all = rates(longer, 10), found = rates(branch, 10);
  expect_rates(all, {0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  expect_rates(found, {0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25});
  branch.decay_shape = DecayType::square_root;
  branch.end_learning_rate = 0.2;
  expect_rates(rates(branch, 11),
               {0.5,
                1,
                1,
                1,
                1,
                1,
                1,
                0.2 + 0.8 * 0.5,
                0.2 + 0.8 * (1 - std::sqrt(0.5)),
                0.2 + 0.8 * (1 - std::sqrt(0.75)),
                0.2});
  branch.decay_steps.reset();
  EXPECT_EQ(branch.decaying_updates(), 2);
}

}  // namespace
}  // namespace longspan::schedule_test
