// Sums of spans by kind, name and layer.
#include "framework/profiling/profile_summary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace longspan::profile_summary_test {
namespace {

std::int64_t moment = 0;
std::int64_t fake_clock() { return moment; }

void multiply(std::int64_t nanoseconds) {
  const Span span({.kind = ActivityKind::kernel, .place = std::source_location::current()});
  moment += nanoseconds;
}

// Two steps of two layers. Each layer contains a nested span of itself.
RecordedSpans some_steps() {
  Timeline timeline(1000, fake_clock);
  timeline.start();
  const TimelineScope here(&timeline);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const Span whole({.kind = ActivityKind::step, .number = step});
    moment += 100;
    for (const char* const name : {"layers/0/attention", "layers/1/attention"}) {
      const Span layer({.kind = ActivityKind::layer, .layer = name});
      moment += 10;
      const Span again({.kind = ActivityKind::layer, .layer = name});
      multiply(1000);
    }
    const Span wait({.kind = ActivityKind::idle, .name = "all_reduce", .axis = "data"});
    const OpenSpan begun = timeline.begin_async();
    moment += 500;
    timeline.end_async({.kind = ActivityKind::collective, .name = "all_reduce"}, begun);
  }
  return timeline.stop();
}

TEST(ProfileSummary, SumsEqualSpansAcrossLayers) {
  const ProfileSummary lines = lines_of(some_steps());
  const ProfileTotals& kernel = lines.at({"kernel", "multiply", "layers/*/attention"});
  EXPECT_EQ(kernel.calls, 4);
  EXPECT_EQ(kernel.self_time, 4000);
  EXPECT_EQ(kernel.total, 4000);
  EXPECT_EQ(lines.at({"idle", "waiting for all_reduce (data)", ""}).self_time, 1000);
  EXPECT_EQ(lines.at({"step", "step", ""}).total, 5240);
  EXPECT_EQ(lines.at({"step", "step", ""}).self_time, 200);
  for (const auto& [key, sums] : lines) EXPECT_NE(key.kind, "collective");
}

TEST(ProfileSummary, CountsTimeInNestedSpansOnce) {
  const ProfileTotals layer = lines_of(some_steps()).at({"layer", "layers/*/attention", ""});
  EXPECT_EQ(layer.calls, 8);
  EXPECT_EQ(layer.self_time, 40);
  EXPECT_EQ(layer.total, 4040);
}

TEST(ProfileSummary, SelfTimesSumToStepTime) {
  const ProfileSummary lines = lines_of(some_steps());
  std::int64_t own = 0;
  for (const auto& [key, sums] : lines) own += sums.self_time;
  EXPECT_EQ(own, lines.at({"step", "step", ""}).total);
}

TEST(ProfileSummary, CoversOnlyCompleteSteps) {
  Timeline small(8, fake_clock);
  small.start();
  {
    const TimelineScope here(&small);
    for (std::uint64_t step = 5; step <= 7; ++step) {
      const Span whole({.kind = ActivityKind::step, .number = step});
      moment += 100'000;
      multiply(1'000'000);
      multiply(2'000'000);
    }
  }
  const RecordedSpans recorded = small.stop();
  ASSERT_EQ(recorded.dropped, 1);  // the span of step 7
  EXPECT_EQ(last_complete_step(recorded), 6);
  const ProfileSummary lines = lines_of(recorded);
  EXPECT_EQ(lines.at({"step", "step", ""}).calls, 2);
  EXPECT_EQ(lines.at({"kernel", "multiply", ""}).calls, 4);
  const std::vector<std::string> table = table_of(lines, {5, 6, 1});
  EXPECT_EQ(table[0], "Profile of steps 5 to 6: 3.100 ms per step, by self time");
  EXPECT_EQ(table[2], "     3.000  96.8%      3.000      2.0  kernel multiply");
}

TEST(ProfileSummary, ReportsThatNoStepIsComplete) {
  Timeline small(1, fake_clock);
  small.start();
  const TimelineScope here(&small);
  {
    const Span whole({.kind = ActivityKind::step, .number = 5});
    multiply(10);
  }
  const RecordedSpans recorded = small.stop();
  EXPECT_EQ(last_complete_step(recorded), 0);
  EXPECT_EQ(table_of(lines_of(recorded), {5, 0, 1}),
            std::vector<std::string>{"Profile: no step from step 5 on was recorded completely"});
}

TEST(ProfileSummary, RoundTripsThroughText) {
  const ProfileSummary lines = lines_of(some_steps());
  ProfileSummary both = lines;
  add_text(to_text(lines), both);
  ASSERT_EQ(both.size(), lines.size());
  for (const auto& [key, sums] : lines) {
    EXPECT_EQ(both.at(key).self_time, 2 * sums.self_time);
    EXPECT_EQ(both.at(key).total, 2 * sums.total);
    EXPECT_EQ(both.at(key).calls, 2 * sums.calls);
  }
}

TEST(ProfileSummary, TableListsMostExpensiveFirst) {
  ProfileSummary lines;
  lines[{"step", "step", ""}] = {0, 40'000'000, 4};
  for (int i = 0; i < 20; ++i)
    lines[{"kernel", fmt::format("work{}", i), "layers/*"}] = {i * 100'000, i * 200'000, 8};
  const std::vector<std::string> table = table_of(lines, {5, 6, 2});
  ASSERT_EQ(table.size(), 12);
  EXPECT_EQ(table[0], "Profile of steps 5 to 6: 10.000 ms per step on 2 ranks, by self time");
  EXPECT_EQ(table[2], "     0.475   4.8%      0.950      2.0  kernel work19 in layers/*");
  EXPECT_TRUE(table[11].ends_with("work10 in layers/*"));
}

}  // namespace
}  // namespace longspan::profile_summary_test
