#include "launch/model_values.h"

#include <fmt/format.h>

#include <map>

#include "framework/core/option_text.h"

namespace longspan {

ModelValues model_values(const Configuration& configuration) {
  std::map<std::string, std::string> values;
  for (const OptionValue& value : configuration.table.values())
    values.emplace(value.key, value.text);
  return ModelValues(std::move(values));
}

ModelValues with_image(const ModelValues& values, const std::optional<ImageShape>& image) {
  if (!image) return values;
  auto all = values.all();
  for (const auto& [key, count] : {std::pair("image.height", image->height),
                                   {"image.width", image->width},
                                   {"image.channels", image->channels}})
    all[key] = fmt::format("{}", count);
  return ModelValues(std::move(all));
}

std::unique_ptr<Configuration> configure_settings(
    const std::vector<std::pair<std::string, std::string>>& settings, const std::string& run) {
  // A configuration must name a text to learn from, which a model without a run has not.
  std::map<std::string, std::string> sections = {
      {"data", "  train: your-text.txt\n"},
      {"run", fmt::format("  directory: {}\n", yaml_word(run))}};
  for (const auto& [key, value] : settings) {
    const std::size_t dot = key.find('.');
    sections[key.substr(0, dot)] += fmt::format("  {}: {}\n", key.substr(dot + 1), value);
  }
  std::string text;
  for (const auto& [section, lines] : sections) text += section + ":\n" + lines;
  return configure({.file = run, .text = text, .settings = {}});
}

}  // namespace longspan
