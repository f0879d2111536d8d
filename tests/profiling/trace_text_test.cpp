// Lines of a trace: valid JSON for any content, in blocks, on one clock.
#include "framework/profiling/trace_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "framework/core/error.h"

namespace longspan::trace_text_test {
namespace {

using Json = nlohmann::json;

RecordedSpans some_spans() {
  RecordedSpans recorded;
  recorded.texts = {"", "layers/0/\"odd\\\n name\"", "data"};
  const auto place = std::source_location::current();
  recorded.spans = {
      {.begin = 1'500, .end = 2'500, .place = place, .layer = 1, .kind = ActivityKind::op},
      {.begin = 2'500,
       .end = 3'000,
       .place = place,
       .layer = 1,
       .kind = ActivityKind::op,
       .backward = true},
      {.begin = 2'600,
       .end = 2'900,
       .name = "all_reduce",
       .bytes = 64,
       .number = 3,
       .axis = 2,
       .kind = ActivityKind::idle},
      {.begin = 1'000, .end = 4'000, .layer = 1, .kind = ActivityKind::layer},
      {.begin = 2'000,
       .end = 2'950,
       .name = "all_reduce",
       .place = place,
       .bytes = 64,
       .number = 3,
       .axis = 2,
       .kind = ActivityKind::collective},
      {.begin = 1'000, .end = 5'000, .number = 7, .kind = ActivityKind::step, .cut = true},
  };
  return recorded;
}

// Returns the events of a trace of these ranks, written in blocks of about `max_bytes`.
std::vector<Json> events_of(const std::vector<TraceOfRank>& ranks, std::size_t max_bytes) {
  std::string text = trace_head(R"({"ranks":2})");
  for (const TraceOfRank& rank : ranks) {
    TraceText lines(rank);
    for (std::string block = lines.next(max_bytes); !block.empty(); block = lines.next(max_bytes)) {
      EXPECT_LE(block.size(), max_bytes + 2000);
      text += block;
    }
  }
  const Json trace = Json::parse(text + trace_tail());
  EXPECT_EQ(trace["otherData"]["ranks"], 2);
  return trace["traceEvents"];
}

std::vector<TraceOfRank> two_ranks() {
  const ClockLine first = {.begin = 500, .end = 6'000};
  ClockLine second = first;
  second.begin_offset = second.end_offset = 100'000;
  TraceOfRank other = {.rank = 1, .title = "rank 1", .clock = second, .zero = 500};
  other.threads.push_back({"main", some_spans()});
  for (TimedSpan& span : other.threads[0].recorded.spans) {
    span.begin += 100'000;
    span.end += 100'000;
  }
  TraceOfRank mine = {.rank = 0, .title = "rank 0", .clock = first, .zero = 500};
  mine.threads.push_back({"main", some_spans()});
  mine.threads.push_back({"reader", {}});
  return {mine, other};
}

const Json& event(const std::vector<Json>& events,
                  int rank,
                  const std::string& name,
                  const char* kind = "X") {
  for (const Json& each : events)
    if (each["pid"] == rank && each["name"] == name && each["ph"] == kind) return each;
  throw Failure("no event {}", name);
}

TEST(TraceText, WritesEqualJsonForAnyBlockSize) {
  const std::vector<Json> whole = events_of(two_ranks(), std::size_t{1} << 20);
  for (const std::size_t bytes : {1, 100, 1000}) EXPECT_EQ(events_of(two_ranks(), bytes), whole);
}

TEST(TraceText, MapsRanksToProcessesWithThreads) {
  const std::vector<Json> events = events_of(two_ranks(), 1000);
  EXPECT_EQ(event(events, 0, "process_name", "M")["args"]["name"], "rank 0");
  EXPECT_EQ(event(events, 1, "process_name", "M")["args"]["clock_offset_ns"], 100'000);
  std::vector<std::string> threads;
  for (const Json& each : events)
    if (each["name"] == "thread_name") threads.push_back(each["args"]["name"]);
  EXPECT_EQ(threads, (std::vector<std::string>{"main", "reader", "main"}));
}

TEST(TraceText, DescribesSpans) {
  const std::vector<Json> events = events_of(two_ranks(), 1000);
  const Json& op = event(events, 0, "some_spans");
  EXPECT_EQ(op["cat"], "op");
  EXPECT_EQ(op["args"]["layer"], "layers/0/\"odd\\\n name\"");
  EXPECT_TRUE(
      op["args"]["place"].get<std::string>().starts_with("tests/profiling/trace_text_test"));
  EXPECT_DOUBLE_EQ(op["ts"], 1.0);
  EXPECT_DOUBLE_EQ(op["dur"], 1.0);
  EXPECT_EQ(event(events, 0, "some_spans (backward)")["args"]["pass"], "backward");
  EXPECT_EQ(event(events, 0, "waiting for all_reduce")["args"]["axis"], "data");
  EXPECT_EQ(event(events, 0, "layers/0/\"odd\\\n name\"")["cat"], "layer");
  EXPECT_EQ(event(events, 0, "step 7")["args"], Json({{"step", 7}, {"cut", true}}));
}

TEST(TraceText, WritesCollectivesAsAsyncEvents) {
  const std::vector<Json> events = events_of(two_ranks(), 1000);
  const Json& begin = event(events, 1, "all_reduce", "b");
  const Json& end = event(events, 1, "all_reduce", "e");
  EXPECT_EQ(begin["id"], end["id"]);
  EXPECT_NE(begin["id"], event(events, 0, "all_reduce", "b")["id"]);
  EXPECT_EQ(begin["args"]["bytes"], 64);
  EXPECT_EQ(begin["args"]["axis"], "data");
  EXPECT_EQ(begin["args"]["number"], 3);
  EXPECT_DOUBLE_EQ(end["ts"].get<double>() - begin["ts"].get<double>(), 0.95);
}

TEST(TraceText, AlignsRanksToFirstClock) {
  const std::vector<Json> events = events_of(two_ranks(), 1000);
  EXPECT_EQ(event(events, 0, "step 7")["ts"], event(events, 1, "step 7")["ts"]);
}

TEST(ClockLine, CorrectsClockDrift) {
  const ClockLine line = {.begin = 1000, .end = 2000, .begin_offset = 10, .end_offset = 30};
  EXPECT_EQ(line.on_first(1000), 990);
  EXPECT_EQ(line.on_first(1500), 1480);
  EXPECT_EQ(line.on_first(2000), 1970);
  EXPECT_EQ(line.on_first(3000), 2970);
}

}  // namespace
}  // namespace longspan::trace_text_test
