#include "framework/report/run_samples.h"

#include <fmt/format.h>

#include <array>
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

}  // namespace longspan
