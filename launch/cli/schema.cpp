#include "launch/cli/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/decimal.h"
#include "launch/cli/configuration_keys.h"
#include "launch/cli/yaml.h"

namespace longspan {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* family_section = "model";

// Converts a YAML word to the JSON type that YAML readers assign.
Json word_value(const Scalar& word) {
  if (word.quoted) return word.text;
  if (word.text == "true" || word.text == "false") return word.text == "true";
  if (const auto integer = parse_integer(word.text); integer.good) return integer.value;
  if (const auto number = parse_number(word.text); number.good) return number.value;
  return word.text;
}

void add_bounds(Json& schema, const Constraint& rule) {
  constexpr double exact = 0x1p53;  // up to here integers are exact in both types
  const auto bound = [](double value) {
    const bool is_integer = std::abs(value) < exact && std::floor(value) == value;
    return is_integer ? Json(static_cast<std::int64_t>(value)) : Json(value);
  };
  if (rule.lower) schema[rule.lower_open ? "exclusiveMinimum" : "minimum"] = bound(*rule.lower);
  if (rule.upper) schema[rule.upper_open ? "exclusiveMaximum" : "maximum"] = bound(*rule.upper);
  if (rule.multiple) schema["multipleOf"] = *rule.multiple;
}

// One of the words; one that resembles a number may be written as one.
Json one_of_words(const std::vector<std::string>& words) {
  Json values = Json::array();
  for (const std::string& word : words) {
    values.push_back(word);
    if (const Json value = word_value({word}); !value.is_string()) values.push_back(value);
  }
  return {{"enum", values}};
}

// Returns the schema of a value, or of each list element.
Json word_schema(const OptionDescription& option, bool is_empty_refused) {
  Json schema = Json::object();
  switch (option.form.word) {
    case WordType::integer:
      schema["type"] = "integer";
      break;
    case WordType::number:
      schema["type"] = "number";
      break;
    case WordType::boolean:
      schema["type"] = "boolean";
      break;
    case WordType::text:
    case WordType::path:
      if (!option.rule.choices.empty()) return one_of_words(option.rule.choices);
      // A word that resembles a number is also valid text here.
      schema["type"] = {"string", "number", "boolean"};
      if (is_empty_refused) schema["minLength"] = 1;
      break;
  }
  add_bounds(schema, option.rule);
  return schema;
}

Json any_of(const Json& first, const Json& second) { return {{"anyOf", {first, second}}}; }

Json list_schema(const OptionDescription& option) {
  const bool is_path = option.form.word == WordType::path;
  const Json word = word_schema(option, is_path && option.rule.not_empty);
  Json item = word;
  if (option.form.is_weighted) {
    const Json weighted = {
        {"type", "object"},
        {"properties",
         {{"path", {{"type", {"string", "number", "boolean"}}, {"minLength", 1}}},
          {"weight", {{"type", "number"}, {"exclusiveMinimum", 0}}}}},
        {"required", {"path"}},
        {"additionalProperties", false}};
    item = any_of(word, weighted);
  }
  Json list = {{"type", "array"}, {"items", item}};
  if (option.rule.not_empty || option.form.is_weighted) list["minItems"] = 1;
  return any_of(word, list);
}

// Returns the default as JSON. The key is only needed for parsing.
Json default_of(const OptionDescription& option) {
  const ParsedYaml read = read_setting("key=" + option.default_value);
  require(read.complaints.empty() && read.assignments.size() == 1,
          "{}: its default cannot be read: {}",
          option.key,
          option.default_value);
  const Assignment& value = read.assignments.front();
  if (value.kind != Assignment::Kind::list && !option.form.is_list)
    return word_value(value.scalars.front());
  Json list = Json::array();
  for (const ListItem& item : value.scalars) list.push_back(word_value(item));
  return value.kind == Assignment::Kind::list ? list : list.front();
}

Json option_schema(const OptionDescription& option) {
  Json schema =
      option.form.is_list ? list_schema(option) : word_schema(option, option.rule.not_empty);
  if (option.form.is_optional) schema = any_of({{"const", "none"}}, schema);
  Json described = {{"description", option.documentation}};
  if (!option.rule.required) described["default"] = default_of(option);
  described.update(schema);
  return described;
}

// A section is null if all its keys are commented out.
Json empty_section() {
  return {{"type", {"object", "null"}},
          {"properties", Json::object()},
          {"additionalProperties", false}};
}

// Adds a key below a section, creating a section for each of its parts.
void add_key(Json& section, const std::string& key, const OptionDescription& option) {
  const std::size_t dot = key.find('.');
  const std::string name = key.substr(0, dot);
  if (option.default_value.empty()) {
    Json& wanted = section["required"];
    if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) wanted.push_back(name);
    section["type"] = "object";
  }
  Json& properties = section["properties"];
  if (dot == std::string::npos) {
    properties[name] = option_schema(option);
    return;
  }
  if (!properties.contains(name)) properties[name] = empty_section();
  add_key(properties[name], key.substr(dot + 1), option);
}

using Options = std::map<std::string, OptionDescription>;

Options by_key(const std::vector<OptionDescription>& reference) {
  Options options;
  for (const OptionDescription& option : reference) options.emplace(option.key, option);
  return options;
}

// Returns the schema of a configuration in which the key's value has a schema. An absent key is
// valid if `is_met_by_default`.
Json with_value(std::string_view key, const Json& value, bool is_met_by_default) {
  const std::size_t dot = key.find('.');
  const std::string name(key.substr(0, dot));
  Json schema = {{"properties",
                  {{name,
                    dot == std::string_view::npos
                        ? value
                        : with_value(key.substr(dot + 1), value, is_met_by_default)}}}};
  if (!is_met_by_default) {
    schema["type"] = "object";  // not an empty section
    schema["required"] = {name};
  }
  return schema;
}

// Returns the schema of the values that meet a condition.
Json values_of(const Condition& condition, bool is_list) {
  if (condition.bound) return {{"type", "number"}, {"exclusiveMinimum", *condition.bound}};
  if (condition.values.empty())
    return {{"not", {{"enum", {"none", "", false, 0, Json::array(), nullptr}}}}};
  const Json words = one_of_words(condition.values);
  const Json met = is_list ? any_of(words, {{"contains", words}, {"type", "array"}}) : words;
  return condition.is_negated ? Json{{"not", met}} : met;
}

// Returns the schema of a configuration that meets the condition, or null if the condition reads an
// undeclared key or the schema cannot express it.
std::optional<Json> condition_schema(const Condition& condition, const Options& options) {
  if (condition.reason) return std::nullopt;
  if (!condition.alternatives.empty()) {
    Json schemas = Json::array();
    for (const Condition& alternative : condition.alternatives) {
      const auto schema = condition_schema(alternative, options);
      if (!schema) return std::nullopt;
      schemas.push_back(*schema);
    }
    return Json{{"anyOf", schemas}};
  }
  const auto option = options.find(condition.key);
  if (option == options.end()) return std::nullopt;
  return with_value(condition.key,
                    values_of(condition, option->second.form.is_list),
                    condition.is_met(option->second.default_words));
}

// Returns whether the rule reads or belongs to a key of a model family.
bool is_of_family(const OptionDescription& option, const Requirement& requirement) {
  const std::string section = std::string(family_section) + ".";
  return option.key.starts_with(section) || requirement.condition.key.starts_with(section);
}

// Adds the rules between keys to `all`: those of a family, or those of shared keys.
void add_requirements(Json& all, const Options& options, bool of_family) {
  for (const auto& [key, option] : options) {
    for (const Requirement& requirement : option.rule.requirements) {
      if (is_of_family(option, requirement) != of_family) continue;
      const auto met = condition_schema(requirement.condition, options);
      if (!met) continue;
      const Json value = requirement.value.empty() ? Json{{"not", {{"const", default_of(option)}}}}
                                                   : one_of_words({requirement.value});
      const bool applies_by_default =
          !requirement.value.empty() &&
          option.default_words == std::vector<std::string>{requirement.value};
      all.push_back({{"if", with_value(key, value, applies_by_default)},
                     {"then", requirement.is_excluded ? Json{{"not", *met}} : *met}});
    }
  }
}

// Returns the section `model` of a family.
Json model_of(const Family& family, const std::vector<OptionDescription>& reference) {
  Json section = empty_section();
  section["description"] = family.documentation;
  const std::string prefix = std::string(family_section) + ".";
  section["properties"]["family"] = {{"const", family.name}};
  for (const OptionDescription& option : reference) {
    require(option.key.starts_with(prefix),
            "family {}: key {} is not in section {}",
            family.name,
            option.key,
            family_section);
    add_key(section, option.key.substr(prefix.size()), option);
  }
  return section;
}

}  // namespace

Json configuration_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "Longspan run configuration"}};
  schema.update(empty_section());
  schema["type"] = "object";
  Configuration shared;
  declare_all(shared, nullptr);
  const std::vector<OptionDescription> shared_reference = shared.table.reference();
  for (const OptionDescription& option : shared_reference) add_key(schema, option.key, option);
  const Options shared_options = by_key(shared_reference);
  schema["allOf"] = Json::array();
  add_requirements(schema["allOf"], shared_options, false);
  // The other keys are the family's.
  schema["properties"][family_section].erase("additionalProperties");
  for (const Family& family : families()) {
    const Json is_named = {
        {"properties",
         {{family_section,
           {{"properties", {{"family", {{"const", family.name}}}}}, {"required", {"family"}}}}}},
        {"required", {family_section}}};
    OptionTable table;
    const BackboneFactory unused = family.declare(table, {});
    const std::vector<OptionDescription> reference = table.reference();
    Options options = by_key(reference);
    options.insert(shared_options.begin(), shared_options.end());
    Json then = {{"properties", {{family_section, {{"$ref", "#/$defs/" + family.name}}}}}};
    then["allOf"] = Json::array();
    add_requirements(then["allOf"], options, true);
    schema["allOf"].push_back({{"if", is_named}, {"then", then}});
    schema["$defs"][family.name] = model_of(family, reference);
  }
  return schema;
}

}  // namespace longspan
