// Reads a run's directory. SPDX-License-Identifier: Apache-2.0
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/core/error.h"
#include "launch/cli/metrics_reader.h"
#include "launch/cli/run_record.h"
#include "launch/cli/yaml.h"
#include "launch/python/python_values.h"

namespace longspan::python {
namespace {

using Column = nb::ndarray<nb::numpy, double, nb::ndim<1>>;

std::string record(const std::string& path) {
  const nb::gil_scoped_release others_run;
  return json_text(to_json(read_run(path)));
}

template <typename T>
std::optional<T> number_of(const std::string& text) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// Converts a word to Python: a number, a Boolean, None, or text.
nb::object value_of(const Scalar& word) {
  if (!word.quoted) {
    if (word.text == "none") return nb::none();
    if (word.text == "true" || word.text == "false") return nb::bool_(word.text == "true");
    if (const auto whole = number_of<std::int64_t>(word.text)) return nb::int_(*whole);
    if (const auto number = number_of<double>(word.text)) return nb::float_(*number);
  }
  return nb::str(word.text.c_str(), word.text.size());
}

nb::object value_of(const ListItem& item) {
  if (!item.fields) return value_of(static_cast<const Scalar&>(item));
  nb::dict fields;
  for (const auto& [name, word] : *item.fields) fields[name.c_str()] = value_of(word);
  return fields;
}

nb::object value_of(const Assignment& assignment) {
  if (assignment.kind == Assignment::Kind::section) return nb::dict();
  if (assignment.kind == Assignment::Kind::nothing) return nb::none();
  if (assignment.kind == Assignment::Kind::scalar) return value_of(assignment.scalars.front());
  nb::list items;
  for (const ListItem& item : assignment.scalars) items.append(value_of(item));
  return items;
}

// Returns each key of a configuration's text with its value.
nb::dict written_values(const std::string& text, const std::string& file) {
  const ParsedYaml keys = read_yaml(text, file);
  if (!keys.complaints.empty()) throw_if_any(keys.complaints);
  nb::dict values;
  for (const Assignment& assignment : keys.assignments)
    values[assignment.key.c_str()] = value_of(assignment);
  return values;
}

// Returns a number of a line. JSON has no NaN or infinity: NAME_reason holds those as text.
std::optional<double> figure(const MetricsLine& line, const std::string& name) {
  const auto& value = line.at(name);
  if (value.is_number()) return value.get<double>();
  if (!value.is_null()) return std::nullopt;
  const auto reason = line.find(name + "_reason");
  if (reason == line.end() || !reason->is_string()) return std::nullopt;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto& word = reason->get_ref<const std::string&>();
  return word == "inf" ? infinity : word == "-inf" ? -infinity : std::nan("");
}

// If steps repeat, as after a rollback, the later lines count.
std::vector<MetricsLine> lines_that_count(std::vector<MetricsLine> lines) {
  std::vector<MetricsLine> kept;
  for (MetricsLine& line : lines) {
    while (!kept.empty() && kept.back().at("step") >= line.at("step")) kept.pop_back();
    kept.push_back(std::move(line));
  }
  return kept;
}

std::map<std::string, std::vector<double>> columns(const std::string& file) {
  const nb::gil_scoped_release others_run;
  MetricsPart part = metrics_from(file, 0);
  if (!part.trouble.empty()) throw DataError("{}", part.trouble);
  const std::vector<MetricsLine> lines = lines_that_count(std::move(part.lines));
  std::map<std::string, std::vector<double>> found;
  for (std::size_t row = 0; row < lines.size(); ++row)
    for (const auto& [name, unused] : lines[row].items()) {
      const std::optional<double> value = figure(lines[row], name);
      if (!value) continue;
      auto& column = found.try_emplace(name, lines.size(), std::nan("")).first->second;
      column[row] = *value;
    }
  return found;
}

// Returns a column for each number of metrics.jsonl, NaN where a line has none.
std::map<std::string, Column> metrics(const std::string& file) {
  std::map<std::string, Column> arrays;
  for (auto& [name, values] : columns(file)) {
    auto* const kept = new std::vector<double>(std::move(values));
    const nb::capsule owner(
        kept, [](void* last) noexcept { delete static_cast<std::vector<double>*>(last); });
    arrays.emplace(name, Column(kept->data(), {kept->size()}, owner));
  }
  return arrays;
}

}  // namespace

void bind_run(nb::module_& module) {
  module.def("record", &record, nb::arg("path"), "The output of `longspan list --json` for a run.");
  module.def("written_values",
             &written_values,
             nb::arg("text"),
             nb::arg("file"),
             nb::sig("def written_values(text: str, file: str) -> dict[str, object]"));
  module.def("metrics", &metrics, nb::arg("file"));
  module.def(
      "steps", [](const std::string& folder) { return steps_in(folder); }, nb::arg("folder"));
}

}  // namespace longspan::python
