#include "launch/cli/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

// One of the choices; a choice that resembles a number may be written as one.
Json choice(const Constraint& rule) {
  Json words = Json::array();
  for (const std::string& word : rule.choices) {
    words.push_back(word);
    if (const Json value = word_value({word}); !value.is_string()) words.push_back(value);
  }
  return {{"enum", words}};
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
      if (!option.rule.choices.empty()) return choice(option.rule);
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

// Returns the section `model` of a family.
Json model_of(const Family& family) {
  OptionTable table;
  const BackboneFactory unused = family.declare(table, {});
  Json section = empty_section();
  section["description"] = family.documentation;
  const std::string prefix = std::string(family_section) + ".";
  section["properties"]["family"] = {{"const", family.name}};
  for (const OptionDescription& option : table.reference()) {
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
  for (const OptionDescription& option : shared.table.reference())
    add_key(schema, option.key, option);
  // The other keys are the family's.
  schema["properties"][family_section].erase("additionalProperties");
  for (const Family& family : families()) {
    const Json is_named = {
        {"properties",
         {{family_section,
           {{"properties", {{"family", {{"const", family.name}}}}}, {"required", {"family"}}}}}},
        {"required", {family_section}}};
    const Json then = {{"properties", {{family_section, {{"$ref", "#/$defs/" + family.name}}}}}};
    schema["allOf"].push_back({{"if", is_named}, {"then", then}});
    schema["$defs"][family.name] = model_of(family);
  }
  return schema;
}

}  // namespace longspan
