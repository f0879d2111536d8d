#include "launch/cli/model_values.h"

#include <fmt/format.h>

#include <map>

#include "framework/core/quote.h"

namespace longspan {
namespace {

// Formats dotted keys as nested YAML.
class Section {
 public:
  void add(const std::string& key, const std::string& value) {
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos)
      keys_.emplace_back(key, value);
    else
      sections_[key.substr(0, dot)].add(key.substr(dot + 1), value);
  }

  std::string yaml(std::size_t indentation = 0) const {
    const std::string begin(indentation, ' ');
    std::string text;
    for (const auto& [key, value] : keys_) text += fmt::format("{}{}: {}\n", begin, key, value);
    for (const auto& [name, section] : sections_)
      text += fmt::format("{}{}:\n{}", begin, name, section.yaml(indentation + 2));
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> keys_;
  std::map<std::string, Section> sections_;
};

}  // namespace

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
  // A configuration requires training data, which a model without a run lacks.
  Section all;
  all.add("data.train", "your-text.txt");
  all.add("run.output_dir", yaml_word(run));
  for (const auto& [key, value] : settings) all.add(key, value);
  return configure({.file = run, .text = all.yaml(), .settings = {}});
}

}  // namespace longspan
