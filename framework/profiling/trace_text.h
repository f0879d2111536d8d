// The spans of a rank as lines of a trace: events of the Trace Event Format, which chrome://tracing
// and Perfetto read.
#pragma once

#include <string>
#include <vector>

#include "framework/profiling/span_names.h"

namespace longspan {

// What one thread recorded.
struct ThreadSpans {
  std::string thread;  // "main", "reader", ...
  RecordedSpans recorded;
};

// Moments of this rank's clock on that of the first rank, between two at which the offset was
// measured; all in nanoseconds.
struct ClockLine {
  std::int64_t begin = 0;  // of this rank's clock
  std::int64_t end = 0;
  std::int64_t begin_offset = 0;  // what this rank's clock is ahead
  std::int64_t end_offset = 0;
  std::int64_t uncertainty = 0;  // of both

  // In the order in which the moments are.
  std::int64_t on_first(std::int64_t moment) const;
};

struct TraceOfRank {
  int rank = 0;
  std::string title = {};  // of its process in the trace
  std::vector<ThreadSpans> threads = {};
  ClockLine clock = {};
  std::int64_t zero = 0;  // the trace's begin, on the first rank's clock
};

// A process of the trace for the rank and a thread for each of its threads. Collectives are beside
// the thread: events that begin and end by themselves.
class TraceText {
 public:
  // `trace` outlives it.
  explicit TraceText(const TraceOfRank& trace) : trace_(trace) {}

  // Lines that come next, for `most_bytes` or a little more; empty when there are none left. Each
  // is an event, and has a comma before it but for the first of the first rank.
  std::string next(std::size_t most_bytes = std::size_t{1} << 20);

 private:
  void add_titles(std::string& text) const;
  void add(std::string& text, std::size_t thread, const TimedSpan& span);

  const TraceOfRank& trace_;
  SpanNames names_;
  bool begun_ = false;
  std::size_t thread_ = 0;  // of the span that comes next
  std::size_t span_ = 0;
  std::size_t beside_ = 0;  // collectives so far
};

// What stands before the events of all ranks, and behind them. `about`: a JSON object.
std::string trace_head(const std::string& about);
std::string trace_tail();

}  // namespace longspan
