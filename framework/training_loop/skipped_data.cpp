#include "framework/training_loop/skipped_data.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "checkpoints/files.h"
#include "framework/core/error.h"

namespace longspan {
namespace {

// Limit of steps and batches, equal to that of a checkpoint's step.
constexpr std::int64_t max_skipped = 999'999'999;
constexpr std::int64_t max_bytes = std::int64_t{1} << 22;

std::optional<std::int64_t> count_in(const nlohmann::json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > max_skipped) return std::nullopt;
  const auto count = value.get<std::int64_t>();
  return count >= 1 ? std::optional(count) : std::nullopt;
}

std::optional<std::int64_t> step_in(const std::string& text) {
  std::int64_t step = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, step);
  const bool is_step = error == std::errc() && stop == end && step >= 1 && step <= max_skipped;
  return is_step ? std::optional(step) : std::nullopt;
}

}  // namespace

void SkippedData::add(std::int64_t first, std::int64_t last) {
  std::int64_t batches = last - first + 1;
  const auto begin = before.lower_bound(first), end = before.upper_bound(last);
  for (auto passed = begin; passed != end; ++passed) batches += passed->second;
  before.erase(begin, end);
  before[first] = batches;
}

std::int64_t SkippedData::before_step(std::int64_t step) const {
  const auto found = before.find(step);
  return found == before.end() ? 0 : found->second;
}

std::int64_t SkippedData::until(std::int64_t step) const {
  std::int64_t batches = 0;
  for (const auto& [at, count] : before)
    if (at <= step) batches += count;
  return batches;
}

std::int64_t SkippedData::batches() const {
  return until(std::numeric_limits<std::int64_t>::max());
}

std::string SkippedData::to_json() const {
  nlohmann::ordered_json steps = nlohmann::ordered_json::object();
  for (const auto& [step, batches] : before) steps[std::to_string(step)] = batches;
  return nlohmann::ordered_json{{"times", times}, {"before", steps}}.dump() + "\n";
}

SkippedData SkippedData::of_json(const std::string& text, const std::string& place) {
  const auto refuse = [&] {
    throw DataError("{}: expected content like {}", place, R"({"times": 1, "before": {"12": 4}})");
  };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("times") || !json.contains("before")) refuse();
  const std::optional<std::int64_t> times = count_in(json["times"]);
  if (!times || !json["before"].is_object()) refuse();
  SkippedData data = {.times = *times, .before = {}};
  for (const auto& [key, value] : json["before"].items()) {
    const auto step = step_in(key), batches = count_in(value);
    if (!step || !batches) refuse();
    data.before[*step] = *batches;
  }
  return data;
}

SkippedData read_skipped_data(const RunDirectory& directory, const Communicator& world) {
  const std::filesystem::path path = directory.skipped();
  std::string text, trouble;  // as read on the first rank
  if (world.rank() == 0) try {
      std::error_code error;
      if (std::filesystem::symlink_status(path, error).type() !=
          std::filesystem::file_type::not_found)
        text = SkippedData::of_json(read_text_file(path, max_bytes, [](std::string_view) {}),
                                    path.string())
                   .to_json();
    } catch (const DataError& error) {
      trouble = error.what();
    }
  trouble = world.broadcast(trouble, 0);
  if (!trouble.empty())
    throw DataError("{}; move the file away to skip no data, or restore it", trouble);
  text = world.broadcast(text, 0);
  return text.empty() ? SkippedData() : SkippedData::of_json(text, path.string());
}

}  // namespace longspan
