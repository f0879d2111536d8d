#include "framework/profiling/trace_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "framework/core/format.h"

namespace longspan {

namespace {

// Includes the quotation marks.
std::string in_json(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double microseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

std::string arguments_of(const TimedSpan& span, const std::deque<std::string>& texts) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name, value);
  };
  if (span.layer > 0 && span.kind != ActivityKind::layer) add("layer", in_json(texts[span.layer]));
  if (span.backward) add("pass", "\"backward\"");
  if (span.axis > 0) add("axis", in_json(texts[span.axis]));
  if (span.bytes >= 0) add("bytes", fmt::to_string(span.bytes));
  if (span.number > 0)
    add(span.kind == ActivityKind::step ? "step" : "number", fmt::to_string(span.number));
  if (span.place.line() > 0) add("place", in_json(format_source_location(span.place)));
  if (span.cut) add("cut", "true");
  return text;
}

}  // namespace

std::int64_t ClockLine::on_first(std::int64_t moment) const {
  const double part =
      end > begin ? static_cast<double>(moment - begin) / static_cast<double>(end - begin) : 0.0;
  const double more = std::clamp(part, 0.0, 1.0) * static_cast<double>(end_offset - begin_offset);
  return moment - begin_offset - static_cast<std::int64_t>(more);
}

void TraceText::add_titles(std::string& text) const {
  const int rank = trace_.rank;
  text += fmt::format(
      "{}{{\"ph\":\"M\",\"pid\":{},\"tid\":0,\"name\":\"process_name\",\"args\":{{\"name\":{},"
      "\"clock_offset_ns\":{},\"clock_uncertainty_ns\":{}}}}}",
      rank == 0 ? "" : ",\n",
      rank,
      in_json(trace_.title),
      trace_.clock.begin_offset,
      trace_.clock.uncertainty);
  text += fmt::format(
      ",\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":0,\"name\":\"process_sort_index\",\"args\":"
      "{{\"sort_index\":{0}}}}}",
      rank);
  for (std::size_t i = 0; i < trace_.threads.size(); ++i)
    text += fmt::format(
        ",\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":\"thread_name\",\"args\":{{\"name\":{2}"
        "}}}},\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":\"thread_sort_index\",\"args\":"
        "{{\"sort_index\":{1}}}}}",
        rank,
        i + 1,
        in_json(trace_.threads[i].thread));
}

void TraceText::add(std::string& text, std::size_t thread, const TimedSpan& span) {
  const auto& texts = trace_.threads[thread].recorded.texts;
  const std::int64_t begin = trace_.clock.on_first(span.begin) - trace_.zero;
  const std::int64_t end = trace_.clock.on_first(span.end) - trace_.zero;
  const std::string who = fmt::format("\"pid\":{},\"tid\":{},\"name\":{},\"cat\":\"{}\"",
                                      trace_.rank,
                                      thread + 1,
                                      in_json(names_.name_of(span, texts)),
                                      name_of(span.kind));
  const std::string arguments = arguments_of(span, texts);
  const auto to = std::back_inserter(text);
  if (span.kind != ActivityKind::collective) {
    fmt::format_to(to,
                   ",\n{{\"ph\":\"X\",{},\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{{}}}}}",
                   who,
                   microseconds(begin),
                   microseconds(end - begin),
                   arguments);
    return;
  }
  const std::string id = fmt::format("{}.{}", trace_.rank, async_id_++);
  fmt::format_to(to,
                 ",\n{{\"ph\":\"b\",\"id\":\"{}\",{},\"ts\":{:.3f},\"args\":{{{}}}}}",
                 id,
                 who,
                 microseconds(begin),
                 arguments);
  fmt::format_to(
      to, ",\n{{\"ph\":\"e\",\"id\":\"{}\",{},\"ts\":{:.3f}}}", id, who, microseconds(end));
}

std::string TraceText::next(std::size_t max_bytes) {
  std::string text;
  if (!std::exchange(begun_, true)) add_titles(text);
  for (; thread_ < trace_.threads.size(); ++thread_, span_ = 0) {
    const auto& spans = trace_.threads[thread_].recorded.spans;
    for (; span_ < spans.size(); ++span_) {
      if (text.size() >= max_bytes) return text;
      add(text, thread_, spans[span_]);
    }
  }
  return text;
}

std::string trace_head(const std::string& about) {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n", about);
}

std::string trace_tail() { return "\n]}\n"; }

namespace {

// Sends the block of rank `from` to the first rank. The other ranks exchange as many bytes with
// themselves, since all must take part. Returns false on all ranks where the block is empty.
bool send_to_first(const Communicator& world,
                   const std::string& block,
                   int from,
                   const std::function<void(std::string_view)>& take) {
  const bool is_first = world.rank() == 0;
  const bool is_sender = world.rank() == from;
  const std::int64_t bytes = world.all_reduce(
      is_sender ? static_cast<std::int64_t>(block.size()) : std::int64_t{0}, Reduction::maximum);
  if (bytes == 0) return false;
  const int partner = is_first ? from : (is_sender ? 0 : world.rank());
  const Device device = Device::cpu();
  const Tensor mine = Tensor::zeros({bytes}, DType::u8, device, MemoryTag::workspace);
  const Tensor theirs = Tensor::zeros({bytes}, DType::u8, device, MemoryTag::workspace);
  if (is_sender) std::memcpy(mine.bytes(), block.data(), block.size());
  world.exchange(mine, partner, theirs, partner);
  if (is_first)
    take({reinterpret_cast<const char*>(theirs.bytes()), static_cast<std::size_t>(bytes)});
  return true;
}

}  // namespace

void gather_text(const Communicator& world,
                 const std::function<std::string()>& next,
                 const std::function<void(std::string_view)>& take) {
  if (world.rank() == 0)
    for (std::string block = next(); !block.empty(); block = next()) take(block);
  for (int rank = 1; rank < world.size(); ++rank)
    while (send_to_first(world, rank == world.rank() ? next() : std::string(), rank, take)) {
    }
}

std::string SpanNames::name_of(const TimedSpan& span, const std::deque<std::string>& texts) {
  if (span.kind == ActivityKind::step) return fmt::format("step {}", span.number);
  if (span.kind == ActivityKind::layer && span.name == nullptr) return texts[span.layer];
  const std::string& name = span.name != nullptr ? span.name : function(span.place);
  if (span.kind == ActivityKind::idle) return "waiting for " + name;
  return span.backward ? name + " (backward)" : name;
}

const std::string& SpanNames::function(const std::source_location& place) {
  const char* const words = place.function_name();
  const auto known = functions_.find(words);
  if (known != functions_.end()) return known->second;
  return functions_.emplace(words, short_function_name(words)).first->second;
}

}  // namespace longspan
