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

#include "framework/core/span.h"

namespace longspan {

// Returns nanoseconds of this machine's steady clock.
std::int64_t steady_nanoseconds();

// A completed span. `layer` and `axis` index the timeline's texts.
struct TimedSpan {
  std::int64_t begin = 0;  // nanoseconds of the steady clock
  std::int64_t end = 0;
  std::int64_t self_time = 0;  // excluding nested spans
  const char* name = nullptr;
  std::source_location place = {};
  std::int64_t bytes = -1;
  std::uint64_t number = 0;
  std::uint32_t layer = 0;
  std::uint32_t axis = 0;
  ActivityKind kind = ActivityKind::phase;
  bool backward = false;  // the gradient of an op, or a kernel of it
  bool cut = false;       // recording stopped before the span ended
};

// The result of a recording. Spans are in order of their ends: nested spans before their parent.
struct RecordedSpans {
  std::vector<TimedSpan> spans;
  std::deque<std::string> texts;  // number 0 is empty
  std::int64_t dropped = 0;       // spans dropped because the capacity was reached
};

// Records the spans of one thread. Keeps a bounded number of spans and counts those dropped after
// that. Thread-safe: another thread may start and stop the recording.
class Timeline {
 public:
  static constexpr std::size_t default_capacity = std::size_t{1} << 20;

  // Returns nanoseconds, monotonic.
  using Clock = std::int64_t (*)();
  explicit Timeline(std::size_t room = default_capacity, Clock clock = steady_nanoseconds)
      : room_(room), clock_(clock) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Starts a recording and discards the earlier one.
  void start();
  // Ends open spans and returns the recording. Nothing is recorded until the next start.
  RecordedSpans stop();
  bool recording() const { return recording_.load(std::memory_order_relaxed) != 0; }

  // For Span and similar classes. Returns the number of the recording that the span belongs to; 0:
  // none.
  std::uint64_t begin(const SpanInfo& words) noexcept;
  std::uint64_t start_backward(const OpSite& op) noexcept;
  void end(std::uint64_t recording) noexcept;
  OpSite end_op(const std::source_location& place) noexcept;
  // Asynchronous activity in parallel with the thread, such as a collective: its begin, and, once
  // it ends, the complete span. Activity that begins before the recording is dropped.
  OpenSpan begin_async() noexcept;
  void end_async(const SpanInfo& words, const OpenSpan& begun) noexcept;

 private:
  struct Open {
    TimedSpan span;
    // Nanoseconds of nested ops, layers and phases. `within_op`: kernels and waits since
    // `op_begin`, attributed to the next op.
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
  std::atomic<std::uint64_t> recording_ = 0;  // the recording's number; 0: not recording
  std::mutex mutex_;
  std::uint64_t recordings_ = 0;
  std::vector<Open> open_;  // the innermost last; the first is the recording itself
  RecordedSpans recorded_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;  // of recorded_.texts
};

}  // namespace longspan
