// What a thread does, from one moment to another, for whoever asks where the time goes.
#pragma once

#include <cstdint>
#include <source_location>
#include <string_view>
#include <utility>

namespace longspan {

class Timeline;  // timeline.h

enum class ActivityKind : std::uint8_t {
  step,        // of training
  phase,       // a part of a step: forward, backward, update, ...
  layer,       // in the forward pass
  op,          // of the tape
  kernel,      // a computation on the device
  collective,  // from its start until it is complete, beside what else the thread does
  wait,        // in vain: for other ranks, a batch, a GPU, another thread
  reading,     // of data
  saving,      // of a checkpoint
};
std::string_view name_of(ActivityKind kind);

// What is said of a span. Texts of `name` and `place` are those of the program itself: they outlive
// every timeline. The others are copied.
struct SpanInfo {
  ActivityKind kind = ActivityKind::phase;
  const char* name = nullptr;       // nullptr: of the function at `place`, or the layer's
  std::source_location place = {};  // where it is asked for
  std::string_view layer = {};      // its place in the model; empty: the layer around it
  std::string_view axis = {};       // the group of ranks
  std::int64_t bytes = -1;          // that are sent; -1: does not apply
  std::uint64_t number = 0;         // of a step; of a collective in the ledger of its group
};

// Where the spans of the calling thread are written; nullptr: nowhere. A thread has none unless it
// is given one, so that a span then costs a load and a branch.
inline constinit thread_local Timeline* timeline_of_thread = nullptr;

// While one lives, the calling thread's spans are written there.
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

// The calling thread does this as long as one lives. Spans of a thread lie within each other.
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
  std::uint64_t recording_ = 0;  // of the timeline, that it belongs to
};

// An op of the tape, as what its node keeps for the backward pass: where it was recorded, and a
// number for the layer that it was recorded in, which means something to the timeline that gave it.
struct OpSite {
  std::source_location place = {};
  std::uint32_t layer = 0;
};

// The op at `place` was just computed: what the calling thread did since the op, the layer or the
// phase before it.
OpSite note_op(Timeline& timeline, const std::source_location& place);
inline OpSite end_of_op(const std::source_location& place) {
  if (timeline_of_thread == nullptr) [[likely]]
    return {place, 0};
  return note_op(*timeline_of_thread, place);
}

// Its gradient is computed as long as one lives.
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

}  // namespace longspan
