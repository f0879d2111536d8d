#include "framework/profiling/profile_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <ranges>

namespace longspan {
namespace {

using Json = nlohmann::json;

// Maps "layers/7/attention" to "layers/*/attention".
std::string without_numbers(const std::string& layer) {
  std::string result;
  for (const auto part : std::views::split(layer, '/')) {
    const std::string_view word(part.begin(), part.end());
    const bool is_number = !word.empty() && std::ranges::all_of(word, [](char letter) {
      return std::isdigit(static_cast<unsigned char>(letter)) != 0;
    });
    if (!result.empty()) result += '/';
    result += is_number ? "*" : word;
  }
  return result;
}

ProfileKey key_of(const TimedSpan& span, const std::deque<std::string>& texts, SpanNames& names) {
  const std::string layer = without_numbers(texts[span.layer]);
  const std::string kind(name_of(span.kind));
  if (span.kind == ActivityKind::step) return {kind, "step", ""};
  if (span.kind == ActivityKind::layer) return {kind, layer, ""};
  std::string name = names.name_of(span, texts);
  if (span.axis > 0) name += fmt::format(" ({})", texts[span.axis]);
  return {kind, std::move(name), layer};
}

double milliseconds(std::int64_t nanoseconds, double divided_by) {
  return static_cast<double>(nanoseconds) / 1e6 / divided_by;
}

// Returns "kernel multiply in layers/*/feed_forward". The name of a wait already includes its kind.
std::string words_for(const ProfileKey& key) {
  std::string words = key.name;
  for (const ActivityKind kind :
       {ActivityKind::phase, ActivityKind::layer, ActivityKind::op, ActivityKind::kernel})
    if (key.kind == name_of(kind)) words = key.kind + " " + words;
  return key.layer.empty() ? words : words + " in " + key.layer;
}

bool is_complete_step(const TimedSpan& span) {
  return span.kind == ActivityKind::step && !span.cut;
}

}  // namespace

ProfileTotals& ProfileTotals::operator+=(const ProfileTotals& more) {
  self_time += more.self_time;
  total += more.total;
  calls += more.calls;
  return *this;
}

std::int64_t last_complete_step(const RecordedSpans& recorded) {
  std::uint64_t last = 0;
  for (const TimedSpan& span : recorded.spans)
    if (is_complete_step(span)) last = std::max(last, span.number);
  return static_cast<std::int64_t>(last);
}

ProfileSummary lines_of(const RecordedSpans& recorded) {
  SpanNames names;
  ProfileSummary lines;
  struct Around {
    std::int64_t begin;
    const ProfileKey* key;
  };
  std::vector<Around> around;
  // In reverse order of ends, an enclosing span precedes its nested ones.
  for (const TimedSpan& span : recorded.spans | std::views::reverse) {
    if (span.kind == ActivityKind::collective) continue;
    while (!around.empty() && around.back().begin >= span.end) around.pop_back();
    if (around.empty() && !is_complete_step(span)) continue;
    const auto line = lines.try_emplace(key_of(span, recorded.texts, names)).first;
    const bool is_within =
        std::ranges::any_of(around, [&](const Around& each) { return each.key == &line->first; });
    line->second +=
        {.self_time = span.self_time, .total = is_within ? 0 : span.end - span.begin, .calls = 1};
    around.push_back({span.begin, &line->first});
  }
  return lines;
}

std::string to_text(const ProfileSummary& lines) {
  Json all = Json::array();
  for (const auto& [key, sums] : lines)
    all.push_back({key.kind, key.name, key.layer, sums.self_time, sums.total, sums.calls});
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_text(std::string_view text, ProfileSummary& lines) {
  for (const Json& each : Json::parse(text))
    lines[{each[0], each[1], each[2]}] += {each[3], each[4], each[5]};
}

std::vector<std::string> table_of(const ProfileSummary& lines,
                                  const LinesOf& of,
                                  std::size_t most) {
  std::vector<const ProfileSummary::value_type*> dearest;
  std::int64_t whole = 0;
  std::int64_t steps = 0;  // over all ranks
  for (const auto& line : lines) {
    dearest.push_back(&line);
    if (line.first.kind != name_of(ActivityKind::step)) continue;
    whole += line.second.total;
    steps += line.second.calls;
  }
  if (steps == 0)
    return {fmt::format("Profile: no step from step {} on was recorded completely", of.first_step)};
  std::ranges::stable_sort(
      dearest, std::greater<>(), [](const auto* line) { return line->second.self_time; });
  dearest.resize(std::min(most, dearest.size()));
  const auto parts = static_cast<double>(steps);
  std::vector<std::string> table = {
      fmt::format("Profile of steps {} to {}: {:.3f} ms per step{}, by self time",
                  of.first_step,
                  of.last_step,
                  milliseconds(whole, parts),
                  of.ranks > 1 ? fmt::format(" on {} ranks", of.ranks) : ""),
      fmt::format(
          "{:>10} {:>6} {:>10} {:>8}  {}", "self ms", "share", "total ms", "calls", "name")};
  for (const auto* line : dearest) {
    const auto& [key, sums] = *line;
    table.push_back(fmt::format(
        "{:>10.3f} {:>5.1f}% {:>10.3f} {:>8.1f}  {}",
        milliseconds(sums.self_time, parts),
        whole > 0 ? 100 * static_cast<double>(sums.self_time) / static_cast<double>(whole) : 0.0,
        milliseconds(sums.total, parts),
        static_cast<double>(sums.calls) / parts,
        words_for(key)));
  }
  return table;
}

}  // namespace longspan
