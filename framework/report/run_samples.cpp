#include "framework/report/run_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "framework/report/page_text.h"

namespace longspan {

namespace {

constexpr std::size_t max_bytes_each = 4000;
constexpr std::size_t max_steps = 400;

// Truncates at a character boundary.
std::string truncated(const std::string& text) {
  if (text.size() <= max_bytes_each) return text;
  std::size_t end = max_bytes_each;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string text_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string()
             ? truncated(found->get_ref<const std::string&>())
             : "";
}

void thin(std::vector<SamplesOfStep>& samples) {
  std::vector<SamplesOfStep> kept;
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (i % 2 == 0 || i + 1 == samples.size()) kept.push_back(std::move(samples[i]));
  samples = std::move(kept);
}

std::size_t bytes_of(const SamplesOfStep& step) {
  std::size_t bytes = 0;
  for (const WrittenText& text : step.texts)
    bytes += text.input.size() + text.output.size() + text.reference.size();
  return bytes;
}

}  // namespace

void add_sample(std::vector<SamplesOfStep>& samples, std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return;
  const auto number = step->get<std::int64_t>();
  if (samples.empty() || samples.back().step != number) {
    if (samples.size() > max_steps) thin(samples);
    samples.push_back({number});
  }
  samples.back().texts.push_back(
      {text_of(object, "input"), text_of(object, "output"), text_of(object, "reference")});
}

std::vector<SamplesOfStep> read_run_samples(const std::filesystem::path& path) {
  std::error_code error;
  // Reading a pipe or device would never end.
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  std::vector<SamplesOfStep> samples;
  std::string line;
  while (std::getline(file, line) && !file.eof()) add_sample(samples, line);
  return samples;
}

void downsample_samples(std::vector<SamplesOfStep>& samples, std::size_t max_bytes) {
  const auto bytes = [&] {
    std::size_t sum = 0;
    for (const SamplesOfStep& step : samples) sum += bytes_of(step);
    return sum;
  };
  while (samples.size() > 2 && bytes() > max_bytes) thin(samples);
  // Keeps only the first texts of a step that is too large.
  for (SamplesOfStep& step : samples)
    while (step.texts.size() > 1 && bytes_of(step) > max_bytes / samples.size())
      step.texts.pop_back();
}

std::string samples_data(const std::vector<SamplesOfStep>& samples) {
  std::map<std::string_view, std::size_t> places;
  std::string strings;
  const auto position_of = [&](const std::string& text) {
    const auto [found, is_new] = places.try_emplace(text, places.size());
    if (is_new) strings += (strings.empty() ? "" : ",") + script_string(text);
    return found->second;
  };
  std::string steps;
  for (const SamplesOfStep& step : samples) {
    std::string texts;
    for (const WrittenText& text : step.texts) {
      const std::array positions_of_text = {
          position_of(text.input), position_of(text.output), position_of(text.reference)};
      texts += fmt::format("{}[{}]", texts.empty() ? "" : ",", fmt::join(positions_of_text, ","));
    }
    steps +=
        fmt::format("{}{{\"step\":{},\"texts\":[{}]}}", steps.empty() ? "" : ",", step.step, texts);
  }
  return fmt::format("{{\"strings\":[{}],\"steps\":[{}]}}", strings, steps);
}

namespace {

constexpr std::uintmax_t max_file_bytes = std::uintmax_t{256} << 20;
constexpr std::size_t max_tokens = 4096;

std::string map_data(const HeadMap& map) {
  std::string rows;
  for (const std::vector<double>& row : map.weights) {
    std::string weights;
    for (const double weight : row)
      weights += fmt::format("{}{}", weights.empty() ? "" : ",", std::lround(1000 * weight));
    rows += fmt::format("{}[{}]", rows.empty() ? "" : ",", weights);
  }
  return fmt::format("{{\"layer\":{},\"head\":{},\"weights\":[{}]}}", map.layer, map.head, rows);
}

// Returns whether there is a finite weight for each pair of tokens.
bool is_valid(const RunAttention& attention) {
  const std::size_t count = attention.tokens.size();
  const auto is_row = [&](const std::vector<double>& row) {
    return row.size() == count &&
           std::ranges::all_of(row, [](double weight) { return std::abs(weight) < 1e6; });
  };
  return count > 0 && count <= max_tokens &&
         std::ranges::all_of(attention.maps, [&](const HeadMap& map) {
           return map.weights.size() == count && std::ranges::all_of(map.weights, is_row);
         });
}

}  // namespace

std::filesystem::path newest_attention(const std::filesystem::path& folder) {
  std::filesystem::path newest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || !name.ends_with(".json")) continue;
    if (newest.empty() || newest.filename().string() < name) newest = entry.path();
  }
  return newest;
}

RunAttention read_run_attention(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) ||
      std::filesystem::file_size(file, error) > max_file_bytes)
    return {};
  std::ifstream stream(file, std::ios::binary);
  try {
    const auto object = nlohmann::json::parse(stream);
    RunAttention attention = {.step = object.at("step").get<std::int64_t>(),
                              .tokens = object.at("tokens").get<std::vector<std::string>>()};
    for (const auto& map : object.at("maps"))
      attention.maps.push_back({map.at("layer").get<std::int64_t>(),
                                map.at("head").get<std::int64_t>(),
                                map.at("weights").get<std::vector<std::vector<double>>>()});
    if (is_valid(attention)) return attention;
  } catch (const nlohmann::json::exception&) {
    // A file of another format.
  }
  return {};
}

std::string attention_data(const RunAttention& attention, std::size_t max_bytes) {
  std::string tokens;
  for (const std::string& token : attention.tokens)
    tokens += (tokens.empty() ? "" : ",") + script_string(token);
  std::string maps;
  for (const HeadMap& map : attention.maps) {
    const std::string text = map_data(map);
    if (!maps.empty() && maps.size() + text.size() > max_bytes) break;
    maps += (maps.empty() ? "" : ",") + text;
  }
  return fmt::format("{{\"step\":{},\"tokens\":[{}],\"maps\":[{}]}}", attention.step, tokens, maps);
}

}  // namespace longspan
