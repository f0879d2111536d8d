// A thread's timeline: nested spans, self time, ops, limits.
#include "framework/core/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "framework/core/error.h"

namespace longspan::timeline_test {
namespace {

std::atomic<std::int64_t> moment = 0;
std::int64_t fake_clock() { return moment; }
void pass(std::int64_t nanoseconds) { moment += nanoseconds; }

class TimelineTest : public ::testing::Test {
 protected:
  TimelineTest() { moment = 1000; }

  static const TimedSpan& named(const RecordedSpans& recorded, std::string_view name) {
    const auto found = std::ranges::find_if(recorded.spans, [&](const TimedSpan& span) {
      return span.name != nullptr && span.name == name;
    });
    if (found == recorded.spans.end()) throw Failure("no span {}", name);
    return *found;
  }

  Timeline timeline_{1000, fake_clock};
};

TEST_F(TimelineTest, SpansNestAndReportSelfTime) {
  timeline_.start();
  {
    const TimelineScope here(&timeline_);
    const Span outer({.name = "outer"});
    pass(10);
    {
      const Span inner({.kind = ActivityKind::kernel, .name = "first"});
      pass(5);
    }
    pass(1);
    {
      const Span inner({.name = "second"});
      pass(7);
      const Span innermost({.kind = ActivityKind::idle, .name = "third"});
      pass(3);
    }
    pass(2);
  }
  const RecordedSpans recorded = timeline_.stop();
  ASSERT_EQ(recorded.spans.size(), 4);
  const TimedSpan& outer = named(recorded, "outer");
  EXPECT_EQ(outer.begin, 1000);
  EXPECT_EQ(outer.end, 1028);
  EXPECT_EQ(outer.self_time, 13);
  const TimedSpan& second = named(recorded, "second");
  EXPECT_EQ(second.end - second.begin, 10);
  EXPECT_EQ(second.self_time, 7);
  EXPECT_EQ(named(recorded, "third").self_time, 3);
  std::int64_t own = 0;
  for (const TimedSpan& span : recorded.spans) own += span.self_time;
  EXPECT_EQ(own, outer.end - outer.begin);
}

TEST_F(TimelineTest, OpSpanStartsWherePreviousOpEnds) {
  timeline_.start();
  const TimelineScope here(&timeline_);
  const auto place = std::source_location::current();
  {
    const Span phase({.name = "forward"});
    pass(1);
    {
      const Span layer({.kind = ActivityKind::layer, .layer = "layers/0"});
      for (int i = 0; i < 2; ++i) {
        pass(2);
        {
          const Span kernel({.kind = ActivityKind::kernel, .name = "kernel"});
          pass(10);
        }
        pass(3);
        end_of_op(place);
      }
      pass(4);
    }
    pass(5);
    end_of_op(place);
  }
  const RecordedSpans recorded = timeline_.stop();
  std::vector<TimedSpan> ops;
  for (const TimedSpan& span : recorded.spans)
    if (span.kind == ActivityKind::op) ops.push_back(span);
  ASSERT_EQ(ops.size(), 3);
  EXPECT_EQ(ops[0].begin, 1001);
  EXPECT_EQ(ops[0].end, 1016);
  EXPECT_EQ(ops[1].begin, 1016);
  EXPECT_EQ(ops[1].self_time, 5);
  EXPECT_EQ(recorded.texts[ops[1].layer], "layers/0");
  // After the layer and outside it.
  EXPECT_EQ(ops[2].begin, 1035);
  EXPECT_EQ(ops[2].self_time, 5);
  EXPECT_EQ(ops[2].layer, 0);
  const auto layer = std::ranges::find(recorded.spans, ActivityKind::layer, &TimedSpan::kind);
  EXPECT_EQ(layer->self_time, 4);
  EXPECT_EQ(named(recorded, "forward").self_time, 1);
}

TEST_F(TimelineTest, BackwardSpanHasLayerFromItsOp) {
  timeline_.start();
  const TimelineScope here(&timeline_);
  const auto place = std::source_location::current();
  OpSite op;
  {
    const Span layer({.kind = ActivityKind::layer, .layer = "layers/3/feed_forward"});
    op = end_of_op(place);
  }
  {
    const BackwardSpan gradient(op);
    const Span kernel({.kind = ActivityKind::kernel, .name = "kernel"});
    pass(4);
  }
  const RecordedSpans recorded = timeline_.stop();
  const TimedSpan& gradient = recorded.spans.back();
  EXPECT_TRUE(gradient.backward);
  EXPECT_EQ(gradient.place.line(), place.line());
  EXPECT_EQ(recorded.texts[gradient.layer], "layers/3/feed_forward");
  const TimedSpan& kernel = named(recorded, "kernel");
  EXPECT_TRUE(kernel.backward);
  EXPECT_EQ(kernel.layer, gradient.layer);
}

TEST_F(TimelineTest, OpFromEarlierRecordingHasNoLayer) {
  timeline_.start();
  const TimelineScope here(&timeline_);
  OpSite op;
  {
    const Span layer({.kind = ActivityKind::layer, .layer = "layers/3"});
    op = end_of_op(std::source_location::current());
  }
  timeline_.start();
  { const BackwardSpan gradient(op); }
  const RecordedSpans recorded = timeline_.stop();
  ASSERT_EQ(recorded.spans.size(), 1);
  EXPECT_EQ(recorded.spans.front().layer, 0);
}

TEST_F(TimelineTest, LimitsSpansAndCountsDropped) {
  Timeline small(10, fake_clock);
  small.start();
  const TimelineScope here(&small);
  for (int i = 0; i < 25; ++i) const Span span({.name = "one"});
  for (int i = 0; i < 5; ++i) end_of_op(std::source_location::current());
  small.end_async({.kind = ActivityKind::collective, .name = "all_reduce"}, small.begin_async());
  const RecordedSpans recorded = small.stop();
  EXPECT_EQ(recorded.spans.size(), 10);
  EXPECT_EQ(recorded.dropped, 21);
  small.start();
  EXPECT_EQ(small.stop().dropped, 0);
}

TEST_F(TimelineTest, CutsOpenSpansAtStop) {
  timeline_.start();
  const TimelineScope here(&timeline_);
  auto outer = std::make_unique<Span>(SpanInfo{.name = "outer"});
  pass(5);
  auto inner = std::make_unique<Span>(SpanInfo{.name = "inner"});
  pass(2);
  const RecordedSpans recorded = timeline_.stop();
  ASSERT_EQ(recorded.spans.size(), 2);
  EXPECT_TRUE(named(recorded, "inner").cut);
  EXPECT_EQ(named(recorded, "inner").end, 1007);
  EXPECT_EQ(named(recorded, "outer").self_time, 5);
  // Their ends do not affect the next recording.
  timeline_.start();
  const Span other({.name = "other"});
  inner.reset();
  outer.reset();
  EXPECT_TRUE(timeline_.stop().spans.front().cut);
}

TEST_F(TimelineTest, DoesNotRecordSpansOpenAtStart) {
  const TimelineScope here(&timeline_);
  {
    const Span before({.name = "before"});
    const OpenSpan begun = timeline_.begin_async();
    pass(3);
    timeline_.start();
    { const Span within({.name = "within"}); }
    timeline_.end_async({.kind = ActivityKind::collective, .name = "early"}, begun);
  }
  const RecordedSpans recorded = timeline_.stop();
  ASSERT_EQ(recorded.spans.size(), 1);
  EXPECT_EQ(named(recorded, "within").begin, 1003);
}

TEST_F(TimelineTest, AsyncCollectivesOverlapThreadSpans) {
  timeline_.start();
  const TimelineScope here(&timeline_);
  {
    const Span phase({.name = "backward"});
    OpenSpan begun;
    {
      const Span layer({.kind = ActivityKind::layer, .layer = "layers/4"});
      begun = timeline_.begin_async();
    }
    pass(20);
    timeline_.end_async(
        {.kind = ActivityKind::collective, .name = "all_reduce", .axis = "data", .bytes = 64},
        begun);
    pass(1);
  }
  const RecordedSpans recorded = timeline_.stop();
  const TimedSpan& collective = named(recorded, "all_reduce");
  EXPECT_EQ(collective.end - collective.begin, 20);
  EXPECT_EQ(recorded.texts[collective.axis], "data");
  EXPECT_EQ(recorded.texts[collective.layer], "layers/4");
  EXPECT_EQ(collective.bytes, 64);
  EXPECT_EQ(named(recorded, "backward").self_time, 21);
}

TEST_F(TimelineTest, RecordsThreadsSeparately) {
  Timeline other(1 << 16);
  timeline_.start();
  other.start();
  const TimelineScope here(&timeline_);
  const Span mine({.name = "mine"});
  std::thread([&] {
    EXPECT_EQ(timeline_of_thread, nullptr);
    const Span nowhere({.name = "nowhere"});
    const TimelineScope there(&other);
    for (int i = 0; i < 1000; ++i) {
      const Span outer({.name = "theirs"});
      const Span inner({.name = "within"});
    }
  }).join();
  EXPECT_EQ(timeline_.stop().spans.size(), 1);
  EXPECT_EQ(other.stop().spans.size(), 2000);
}

TEST_F(TimelineTest, SupportsStopFromAnotherThread) {
  Timeline other(1 << 16);
  std::atomic<bool> over = false;
  std::thread worker([&] {
    const TimelineScope there(&other);
    while (!over) {
      const Span outer({.name = "outer"});
      const Span inner({.kind = ActivityKind::kernel, .name = "inner"});
      end_of_op(std::source_location::current());
    }
  });
  for (int i = 0; i < 200; ++i) {
    other.start();
    std::this_thread::yield();
    const RecordedSpans recorded = other.stop();
    for (const TimedSpan& span : recorded.spans) {
      EXPECT_LE(span.begin, span.end);
      EXPECT_GE(span.self_time, 0);
    }
  }
  over = true;
  worker.join();
}

TEST_F(TimelineTest, RecordsNothingBeforeStart) {
  const TimelineScope here(&timeline_);
  { const Span span({.name = "span"}); }
  EXPECT_TRUE(timeline_.stop().spans.empty());
}

}  // namespace
}  // namespace longspan::timeline_test
