// Traces: a rank's spans as lines in the Trace Event Format, for chrome://tracing and Perfetto, and
// the offsets of other machines' clocks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/core/timeline.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Offsets of other machines' clocks from the first rank's.

// Timestamps of one exchange between the first rank and another: each one's send and receive times
// on its own clock. Nanoseconds.
struct ClockExchange {
  std::int64_t first_sent = 0;
  std::int64_t first_received = 0;
  std::int64_t other_sent = 0;
  std::int64_t other_received = 0;
};

// `offset`: lead of the other clock over the first rank's, in nanoseconds, accurate to
// `uncertainty`.
struct ClockOffset {
  std::int64_t offset = 0;
  std::int64_t uncertainty = 0;
};

// Estimates the offset from the exchange with the shortest round trip (Cristian 1989): a longer one
// was delayed in an unknown direction. Requires at least one exchange.
ClockOffset clock_offset(std::span<const ClockExchange> exchanges);

struct RankClock {
  std::function<std::int64_t()> now;  // nanoseconds
  std::string name;                   // equal on ranks that share a clock
};
// Returns the steady clock of this machine.
RankClock steady_clock_of_machine();

// Collective. Returns this rank's offset. One rank per clock other than the first rank's exchanges
// a few small messages with the first rank. The other ranks of that clock receive its result.
ClockOffset clock_offset(const Communicator& world, const RankClock& clock);

// Formats display names; function names are cached.
class SpanNames {
 public:
  // Returns "step 7", "layers/0/attention", "linear", "linear (backward)" or "waiting for
  // all_reduce". `texts`: those of the recording.
  std::string name_of(const TimedSpan& span, const std::deque<std::string>& texts);

 private:
  const std::string& function(const std::source_location& place);

  std::unordered_map<const char*, std::string> functions_;
};

// The recording of one thread.
struct ThreadSpans {
  std::string thread;  // "main", "reader", ...
  RecordedSpans recorded;
};

// Maps timestamps of this rank's clock to the first rank's, by interpolating two measured offsets.
// Nanoseconds.
struct ClockLine {
  std::int64_t begin = 0;  // on this rank's clock
  std::int64_t end = 0;
  std::int64_t begin_offset = 0;  // lead of this rank's clock
  std::int64_t end_offset = 0;
  std::int64_t uncertainty = 0;  // of both offsets

  // Preserves the order of timestamps.
  std::int64_t on_first(std::int64_t moment) const;
};

struct TraceOfRank {
  int rank = 0;
  std::string title = {};  // name of its process in the trace
  std::vector<ThreadSpans> threads = {};
  ClockLine clock = {};
  std::int64_t zero = 0;  // the trace's origin, on the first rank's clock
};

// A trace process for the rank, with a trace thread for each of its threads. Collectives are
// asynchronous events, outside the threads.
class TraceText {
 public:
  // `trace` must outlive it.
  explicit TraceText(const TraceOfRank& trace) : trace_(trace) {}

  // Returns the next lines, of about `max_bytes` in total; empty at the end. Each line is an
  // event, preceded by a comma except for the first rank's first one.
  std::string next(std::size_t max_bytes = std::size_t{1} << 20);

 private:
  void add_titles(std::string& text) const;
  void add(std::string& text, std::size_t thread, const TimedSpan& span);

  const TraceOfRank& trace_;
  SpanNames names_;
  bool begun_ = false;
  std::size_t thread_ = 0;  // of the next span
  std::size_t span_ = 0;
  std::size_t async_id_ = 0;  // collectives so far
};

// Return the text before and after the events of all ranks. `about`: a JSON object.
std::string trace_head(const std::string& about);
std::string trace_tail();

// Collective. `next` returns this rank's next block, empty at the end; `take` receives each block
// on the first rank, in rank order. No rank holds more than two blocks at a time.
void gather_text(const Communicator& world,
                 const std::function<std::string()>& next,
                 const std::function<void(std::string_view block)>& take);

}  // namespace longspan
