// The spans of one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "framework/core/begun_span.h"
#include "framework/core/span.h"

namespace longspan {

// Nanoseconds of this machine's steady clock.
std::int64_t steady_nanoseconds();

// A span that has ended. `layer` and `axis` are numbers of the timeline's texts.
struct TimedSpan {
  std::int64_t begin = 0;  // nanoseconds of the steady clock
  std::int64_t end = 0;
  std::int64_t self_time = 0;  // of it, outside of the spans within it
  const char* name = nullptr;
  std::source_location place = {};
  std::int64_t bytes = -1;
  std::uint64_t number = 0;
  std::uint32_t layer = 0;
  std::uint32_t axis = 0;
  ActivityKind kind = ActivityKind::phase;
  bool backward = false;  // the gradient of an op, or a kernel of it
  bool cut = false;       // it had not ended when recording did
};

// What was recorded. Spans are in the order in which they ended: those within another before it.
struct RecordedSpans {
  std::vector<TimedSpan> spans;
  std::deque<std::string> texts;  // number 0 is empty
  std::int64_t dropped = 0;       // spans, for which there was no room
};

// Spans of one thread, while it records. It holds as many spans as it is told at most; of what
// comes after them the number is kept. Thread-safe: others may begin and end the recording.
class Timeline {
 public:
  static constexpr std::size_t default_capacity = std::size_t{1} << 20;

  // `clock`: nanoseconds, never less than before.
  using Clock = std::int64_t (*)();
  explicit Timeline(std::size_t room = default_capacity, Clock clock = steady_nanoseconds)
      : room_(room), clock_(clock) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Begins anew: nothing is left of an earlier recording.
  void start();
  // Spans that have not ended end here. What is recorded after it is nothing until the next start.
  RecordedSpans stop();
  bool recording() const { return recording_.load(std::memory_order_relaxed) != 0; }

  // For Span and its like. The number of the recording that the span belongs to, 0 where there is
  // none.
  std::uint64_t begin(const SpanInfo& words) noexcept;
  std::uint64_t begin_backward(const OpSite& op) noexcept;
  void end(std::uint64_t recording) noexcept;
  OpSite end_op(const std::source_location& place) noexcept;
  // Of what goes on beside what the thread does, such as a collective: its begin, and once it has
  // ended the whole of it. Nothing is kept of what begins before the recording.
  OpenSpan begin_async() noexcept;
  void end_async(const SpanInfo& words, const OpenSpan& begun) noexcept;

 private:
  struct Open {
    TimedSpan span;
    // Nanoseconds of ops, layers and phases within it, and of what the op that comes next has done
    // so far: kernels and waits since `op_begin`.
    std::int64_t within = 0;
    std::int64_t within_op = 0;
    std::int64_t op_begin = 0;
  };

  TimedSpan span_of(const SpanInfo& words);
  std::uint64_t open(const SpanInfo& words, const OpSite* gradient_of) noexcept;
  void close(std::int64_t now, bool cut);
  void record(const TimedSpan& span) noexcept;
  std::uint32_t number_of(std::string_view text);

  const std::size_t room_;
  const Clock clock_;
  std::atomic<std::uint64_t> recording_ = 0;  // its number while it records, else 0
  std::mutex mutex_;
  std::uint64_t recordings_ = 0;
  std::vector<Open> open_;  // the innermost last; the first is the recording itself
  RecordedSpans recorded_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;  // of recorded_.texts
};

}  // namespace longspan
