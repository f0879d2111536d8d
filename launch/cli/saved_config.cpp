#include "launch/cli/saved_config.h"

#include <fmt/format.h>

#include <exception>
#include <vector>

#include "checkpoints/files.h"
#include "framework/core/quote.h"
#include "launch/cli/configuration_text.h"
#include "launch/cli/yaml.h"

namespace longspan {
namespace {

// Quotes what `resolved` had to quote.
std::string text_of(const Scalar& scalar) {
  if (!scalar.quoted) return scalar.text;
  const std::string word = yaml_word(scalar.text);
  return word == scalar.text ? fmt::format("\"{}\"", word) : word;
}

}  // namespace

std::string text_of(const Assignment& assignment) {
  std::vector<std::string> items;
  for (const ListItem& item : assignment.scalars) {
    if (!item.fields) {
      items.push_back(text_of(static_cast<const Scalar&>(item)));
      continue;
    }
    std::vector<std::string> fields;
    for (const auto& [name, word] : *item.fields)
      fields.push_back(fmt::format("{}: {}", name, text_of(word)));
    items.push_back(fmt::format("{{{}}}", fmt::join(fields, ", ")));
  }
  const std::string text = fmt::format("{}", fmt::join(items, ", "));
  return assignment.kind == Assignment::Kind::list ? fmt::format("[{}]", text) : text;
}

SavedConfiguration saved_configuration(const std::filesystem::path& file) {
  SavedConfiguration saved;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return saved;
  try {
    const std::string text = read_text_file(
        file, static_cast<std::int64_t>(max_configuration_bytes), [](std::string_view) {});
    const ParsedYaml written = read_yaml(text, file.string());
    for (const Assignment& assignment : written.assignments)
      saved.values[assignment.key] = text_of(assignment);
    if (!written.complaints.empty()) {
      const Diagnostic& first = written.complaints.front();
      saved.trouble = fmt::format("{}: {}", first.mark.to_string(), first.message);
    }
  } catch (const std::exception& problem) {
    saved.trouble = problem.what();
  }
  return saved;
}

}  // namespace longspan
