// A timed span of a thread's activity, for the profiler.
#pragma once

#include <chrono>
#include <cstdint>
#include <source_location>
#include <string_view>
#include <utility>

namespace longspan {

class Timeline;  // timeline.h

enum class ActivityKind : std::uint8_t {
  step,        // a training step
  phase,       // a part of a step: forward, backward, update, ...
  layer,       // a layer in the forward pass
  op,          // a tape op
  kernel,      // a computation on the device
  collective,  // from its start to its completion, in parallel with the thread's other work
  idle,        // a wait for other ranks, a batch, a GPU or another thread
  reading,     // reading data
  saving,      // writing a checkpoint
};
std::string_view name_of(ActivityKind kind);

// Describes a span. `name` and the texts of `place` must have static storage duration: they outlive
// every timeline. The other texts are copied.
struct SpanInfo {
  ActivityKind kind = ActivityKind::phase;
  const char* name = nullptr;       // nullptr: the function at `place`, or the layer's
  std::source_location place = {};  // the call site
  std::string_view layer = {};      // path in the model; empty: the enclosing layer
  std::string_view axis = {};       // the process group
  std::int64_t bytes = -1;          // bytes sent; -1: does not apply
  std::uint64_t number = 0;         // step number, or a collective's number in its group's ledger
};

// The timeline that receives the calling thread's spans; nullptr: none. A thread has none by
// default, so that a span then costs a load and a branch.
inline constinit thread_local Timeline* timeline_of_thread = nullptr;

// Writes the calling thread's spans to `timeline` during its lifetime.
class TimelineScope {
 public:
  explicit TimelineScope(Timeline* timeline)
      : before_(std::exchange(timeline_of_thread, timeline)) {}
  TimelineScope(const TimelineScope&) = delete;
  TimelineScope& operator=(const TimelineScope&) = delete;
  ~TimelineScope() { timeline_of_thread = before_; }

 private:
  Timeline* before_;
};

// A span of the calling thread, from construction to destruction. Spans of a thread are nested.
class Span {
 public:
  explicit Span(const SpanInfo& words) {
    if (timeline_of_thread != nullptr) [[unlikely]]
      begin(words);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    if (timeline_ != nullptr) [[unlikely]]
      end();
  }

 private:
  friend class BackwardSpan;
  Span() = default;
  void begin(const SpanInfo& words);
  void end() noexcept;

  Timeline* timeline_ = nullptr;
  std::uint64_t recording_ = 0;  // the timeline's recording that the span belongs to
};

// A tape op as its node stores it for the backward pass. `place`: where it was recorded. `layer`:
// the enclosing layer's number, valid only in the timeline that assigned it.
struct OpSite {
  std::source_location place = {};
  std::uint32_t layer = 0;
};

// Records the op at `place` as completed now. It covers the thread's time since the previous op,
// layer or phase.
OpSite note_op(Timeline& timeline, const std::source_location& place);
inline OpSite end_of_op(const std::source_location& place) {
  if (timeline_of_thread == nullptr) [[likely]]
    return {place, 0};
  return note_op(*timeline_of_thread, place);
}

// Records the gradient computation of an op during its lifetime.
class BackwardSpan {
 public:
  explicit BackwardSpan(const OpSite& op) {
    if (timeline_of_thread != nullptr) [[unlikely]]
      begin(op);
  }

 private:
  void begin(const OpSite& op);

  Span span_;
};

// The begin of asynchronous activity, its layer, and its recording (0: none).
struct OpenSpan {
  std::int64_t begin = 0;
  std::uint64_t recording = 0;
  std::uint32_t layer = 0;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace longspan
