#include "framework/profiling/trace_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "framework/core/format.h"
#include "framework/core/system.h"

namespace longspan {
namespace {

constexpr int exchanges_of_a_clock = 16;

// Combines this machine's boot id with the time namespace, since a container may have its own.
std::string name_of_steady_clock() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> name{};
  const ssize_t length = ::readlink("/proc/self/ns/time", name.data(), name.size());
  if (length > 0) boot.append(name.data(), static_cast<std::size_t>(length));
  if (!boot.empty()) return boot;
  return host_name();
}

// The message in each direction: its send time, and the receive time of the previous one.
struct Stamps {
  std::int64_t sent = 0;
  std::int64_t received_before = 0;
};

// Measures between the first rank and `other`; all other ranks send to themselves. Ranks start each
// exchange after the previous one is complete on both sides, so that neither waits long.
ClockOffset measure(const Communicator& world, int other, const RankClock& clock) {
  const bool is_first = world.rank() == 0;
  const int partner = is_first ? other : (world.rank() == other ? 0 : world.rank());
  const Device device = Device::cpu();
  const Tensor mine = Tensor::zeros({2}, DType::i64, device, MemoryTag::workspace);
  const Tensor theirs = Tensor::zeros({2}, DType::i64, device, MemoryTag::workspace);
  std::vector<ClockExchange> exchanges;
  std::int64_t received = 0;
  // One more than are used: the partner's receive time arrives with its next message.
  for (int i = 0; i <= exchanges_of_a_clock; ++i) {
    const Stamps sends = {clock.now(), received};
    std::memcpy(mine.bytes(), &sends, sizeof sends);
    world.exchange(mine, partner, theirs, partner);
    received = clock.now();
    Stamps got;
    std::memcpy(&got, theirs.bytes(), sizeof got);
    if (i > 0)
      (is_first ? exchanges.back().other_received : exchanges.back().first_received) =
          got.received_before;
    exchanges.push_back(is_first ? ClockExchange{sends.sent, received, got.sent, 0}
                                 : ClockExchange{got.sent, 0, sends.sent, received});
  }
  exchanges.pop_back();
  return clock_offset(exchanges);
}

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

ClockOffset clock_offset(std::span<const ClockExchange> exchanges) {
  const auto there = [](const ClockExchange& each) {
    return each.other_received - each.first_sent;
  };
  const auto back = [](const ClockExchange& each) { return each.first_received - each.other_sent; };
  const ClockExchange& best = *std::ranges::min_element(
      exchanges, {}, [&](const ClockExchange& each) { return there(each) + back(each); });
  return {.offset = (there(best) - back(best)) / 2,
          .uncertainty = (there(best) + back(best) + 1) / 2};
}

RankClock steady_clock_of_machine() { return {steady_nanoseconds, name_of_steady_clock()}; }

ClockOffset clock_offset(const Communicator& world, const RankClock& clock) {
  const std::vector<std::string> names = world.all_gather(clock.name);
  ClockOffset mine;
  for (int rank = 1; rank < world.size(); ++rank) {
    const std::string& name = names[static_cast<std::size_t>(rank)];
    const auto first = std::ranges::find(names, name) - names.begin();
    if (first != rank) continue;  // an already measured clock, or the first rank's
    ClockOffset found = measure(world, rank, clock);
    Tensor of_clock =
        Tensor::from<std::int64_t>(std::vector<std::int64_t>{found.offset, found.uncertainty},
                                   {2},
                                   Device::cpu(),
                                   MemoryTag::workspace);
    world.broadcast(of_clock, rank);
    if (name == clock.name)
      mine = {of_clock.span<std::int64_t>()[0], of_clock.span<std::int64_t>()[1]};
  }
  return mine;
}

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
