#include "framework/core/timeline.h"

#include <array>
#include <chrono>
#include <new>

#include "framework/core/gpu.h"

namespace longspan {

std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string_view name_of(ActivityKind kind) {
  constexpr std::string_view names[] = {
      "step", "phase", "layer", "op", "kernel", "collective", "idle", "reading", "saving"};
  return names[static_cast<std::size_t>(kind)];
}

namespace {

// Components of an op: such spans do not separate an op from the next one.
bool is_part_of_op(ActivityKind kind) {
  return kind == ActivityKind::kernel || kind == ActivityKind::idle;
}

// Pushes a range for NVIDIA's profilers, which copy the name. A layer name may lack a terminator.
// It is truncated to a fixed buffer, since opening a span must not allocate.
void push_nvtx_range(const SpanInfo& words) noexcept {
  if (words.name != nullptr) return gpu::push_nvtx_range(words.name);
  if (words.layer.empty()) return gpu::push_nvtx_range(words.place.function_name());
  std::array<char, 256> name{};
  words.layer.copy(name.data(), name.size() - 1);
  gpu::push_nvtx_range(name.data());
}

}  // namespace

void Timeline::start() {
  const std::lock_guard lock(mutex_);
  recorded_ = {};
  recorded_.spans.reserve(room_);  // pages are committed on first write
  recorded_.texts.emplace_back();
  numbers_.clear();
  numbers_.emplace(recorded_.texts.front(), 0);
  const std::int64_t now = clock_();
  open_.assign(1, {});
  open_.front().span.begin = now;
  open_.front().op_begin = now;
  recording_ = ++recordings_;
}

RecordedSpans Timeline::stop() {
  const std::lock_guard lock(mutex_);
  recording_ = 0;
  const std::int64_t now = clock_();
  while (open_.size() > 1) close(now, true);
  open_.clear();
  numbers_.clear();
  return std::exchange(recorded_, {});
}

std::uint32_t Timeline::number_of(std::string_view text) {
  if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
  const auto number = static_cast<std::uint32_t>(recorded_.texts.size());
  numbers_.emplace(recorded_.texts.emplace_back(text), number);
  return number;
}

TimedSpan Timeline::span_of(const SpanInfo& words) {
  const TimedSpan& around = open_.back().span;
  return {.name = words.name,
          .place = words.place,
          .bytes = words.bytes,
          .number = words.number,
          .layer = words.layer.empty() ? around.layer : number_of(words.layer),
          .axis = words.axis.empty() ? 0 : number_of(words.axis),
          .kind = words.kind,
          .backward = words.kind == ActivityKind::kernel && around.backward};
}

// On allocation failure the span is dropped.
std::uint64_t Timeline::open(const SpanInfo& words, const OpSite* gradient_of) noexcept try {
  Open inner = {.span = span_of(words)};
  if (gradient_of != nullptr) {
    inner.span.backward = true;
    // The tape may be older than the recording.
    const std::uint32_t layer = gradient_of->layer;
    if (layer > 0 && layer < recorded_.texts.size()) inner.span.layer = layer;
  }
  const std::size_t around = open_.size() - 1;
  open_.push_back(inner);
  if (!is_part_of_op(words.kind)) open_[around].within += std::exchange(open_[around].within_op, 0);
  open_.back().span.begin = open_.back().op_begin = clock_();
  return recordings_;
} catch (const std::bad_alloc&) {
  ++recorded_.dropped;
  return 0;
}

std::uint64_t Timeline::begin(const SpanInfo& words) noexcept {
  const std::lock_guard lock(mutex_);
  return recording() ? open(words, nullptr) : 0;
}

std::uint64_t Timeline::start_backward(const OpSite& op) noexcept {
  const std::lock_guard lock(mutex_);
  return recording() ? open({.kind = ActivityKind::op, .place = op.place}, &op) : 0;
}

void Timeline::end(std::uint64_t recording) noexcept {
  const std::lock_guard lock(mutex_);
  if (recording == 0 || recording_ != recording) return;
  close(clock_(), false);
}

void Timeline::close(std::int64_t now, bool cut) {
  Open& ended = open_.back();
  TimedSpan& span = ended.span;
  span.end = now;
  span.self_time = now - span.begin - ended.within - ended.within_op;
  span.cut = cut;
  record(span);
  Open& around = open_[open_.size() - 2];
  const std::int64_t whole = now - span.begin;
  if (is_part_of_op(span.kind)) {
    around.within_op += whole;
  } else {
    around.within += whole;
    around.op_begin = now;
  }
  open_.pop_back();
}

OpSite Timeline::end_op(const std::source_location& place) noexcept {
  const std::lock_guard lock(mutex_);
  if (!recording()) return {place, 0};
  Open& around = open_.back();
  TimedSpan span = span_of({.kind = ActivityKind::op, .place = place});
  span.begin = around.op_begin;
  span.end = clock_();
  const std::int64_t whole = span.end - span.begin;
  span.self_time = whole - around.within_op;
  around.within += whole;
  around.within_op = 0;
  around.op_begin = span.end;
  record(span);
  return {place, span.layer};
}

OpenSpan Timeline::begin_async() noexcept {
  const std::lock_guard lock(mutex_);
  if (!recording()) return {};
  return {clock_(), recordings_, open_.back().span.layer};
}

void Timeline::end_async(const SpanInfo& words, const OpenSpan& begun) noexcept {
  const std::lock_guard lock(mutex_);
  if (begun.recording == 0 || recording_ != begun.recording) return;
  try {
    TimedSpan span = span_of(words);
    span.layer = begun.layer;
    span.begin = begun.begin;
    span.end = clock_();
    span.self_time = span.end - span.begin;
    record(span);
  } catch (const std::bad_alloc&) {
    ++recorded_.dropped;
  }
}

// Never allocates: `start` reserves the memory.
void Timeline::record(const TimedSpan& span) noexcept {
  if (recorded_.spans.size() < room_)
    recorded_.spans.push_back(span);
  else
    ++recorded_.dropped;
}

void Span::begin(const SpanInfo& words) {
  recording_ = timeline_of_thread->begin(words);
  if (recording_ == 0) return;
  timeline_ = timeline_of_thread;
  push_nvtx_range(words);
}

void Span::end() noexcept {
  gpu::pop_nvtx_range();
  timeline_->end(recording_);
}

void BackwardSpan::begin(const OpSite& op) {
  span_.recording_ = timeline_of_thread->start_backward(op);
  if (span_.recording_ == 0) return;
  span_.timeline_ = timeline_of_thread;
  gpu::push_nvtx_range(op.place.function_name());
}

OpSite note_op(Timeline& timeline, const std::source_location& place) {
  return timeline.end_op(place);
}

}  // namespace longspan
