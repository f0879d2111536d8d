#include "launch/cli/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/decimal.h"
#include "framework/core/quote.h"
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
Json word_schema(const OptionValues& values, bool is_empty_refused) {
  Json schema = Json::object();
  switch (values.type) {
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
      if (!values.rule.choices.empty()) return choice(values.rule);
      // A word that resembles a number is also valid text here.
      schema["type"] = {"string", "number", "boolean"};
      if (is_empty_refused) schema["minLength"] = 1;
      break;
  }
  add_bounds(schema, values.rule);
  return schema;
}

Json any_of(const Json& first, const Json& second) { return {{"anyOf", {first, second}}}; }

Json list_schema(const OptionValues& values) {
  const Json word = word_schema(values, values.type == WordType::path && values.rule.not_empty);
  Json item = word;
  if (values.is_weighted) {
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
  if (values.rule.not_empty || values.is_weighted) list["minItems"] = 1;
  return any_of(word, list);
}

// Returns the default as JSON. The key is only needed for parsing.
Json default_of(const OptionDescription& option, bool is_list) {
  const ParsedYaml read = read_setting("key=" + option.default_value);
  require(read.complaints.empty() && read.assignments.size() == 1,
          "{}: its default cannot be read: {}",
          option.key,
          option.default_value);
  const Assignment& value = read.assignments.front();
  if (value.kind != Assignment::Kind::list && !is_list) return word_value(value.scalars.front());
  Json list = Json::array();
  for (const ListItem& item : value.scalars) list.push_back(word_value(item));
  return value.kind == Assignment::Kind::list ? list : list.front();
}

Json option_schema(const OptionDescription& option) {
  const OptionValues values = values_of(option);
  Json schema = values.is_list ? list_schema(values) : word_schema(values, values.rule.not_empty);
  if (values.is_optional) schema = any_of({{"const", "none"}}, schema);
  Json described = {{"description", option.documentation}};
  if (!values.rule.required) described["default"] = default_of(option, values.is_list);
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

namespace {

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

std::vector<std::string_view> split(std::string_view text, std::string_view between) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; (at = text.find(between)) != std::string_view::npos;) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + between.size());
  }
  parts.push_back(text);
  return parts;
}

std::optional<double> number_in(std::string_view text) {
  const auto parsed = parse_number(text);
  return parsed.good ? std::optional(parsed.value) : std::nullopt;
}

// Parses "at least 1", "0 to 1", "a multiple of 8". Returns false for other phrases.
bool take_bound(std::string_view phrase, Constraint& rule) {
  using Make = Constraint (*)(double);
  constexpr std::array<std::pair<std::string_view, Make>, 4> bounds = {
      std::pair{"at least ", Make(at_least<double>)},
      std::pair{"above ", Make(more_than<double>)},
      std::pair{"at most ", Make(at_most<double>)},
      std::pair{"below ", Make(less_than<double>)}};
  for (const auto& [words, make] : bounds) {
    std::string_view rest = phrase;
    if (!take_prefix(rest, words)) continue;
    const auto number = number_in(rest);
    if (number) rule.merge(make(*number));
    return number.has_value();
  }
  if (std::string_view rest = phrase; take_prefix(rest, "a multiple of ")) {
    const auto factor = parse_integer(rest);
    if (factor.good) rule.merge(multiple_of(factor.value));
    return factor.good;
  }
  const auto ends = split(phrase, " to ");
  if (ends.size() != 2) return false;
  const auto lower = number_in(ends[0]);
  const auto upper = number_in(ends[1]);
  if (lower && upper) rule.merge(between(*lower, *upper));
  return lower && upper;
}

// Parses "a, b or c".
void take_choices(std::string_view phrase, Constraint& rule) {
  for (const std::string_view part : split(phrase, ", "))
    for (const std::string_view word : split(part, " or ")) rule.choices.emplace_back(word);
}

Constraint rule_in(std::string_view text, bool is_list) {
  Constraint rule;
  if (text == "not empty") {
    rule.not_empty = true;
    return rule;
  }
  rule.not_empty = take_suffix(text, ", not empty");
  if (is_list) take_prefix(text, "each ");
  if (text.empty()) return rule;
  for (const std::string_view phrase : split(text, " and "))
    if (!take_bound(phrase, rule)) take_choices(phrase, rule);
  return rule;
}

std::optional<WordType> parse_type(std::string_view name) {
  if (name == "integer" || name == "integers") return WordType::integer;
  if (name == "number" || name == "numbers") return WordType::number;
  if (name == "true or false") return WordType::boolean;
  if (name == "string" || name == "strings") return WordType::text;
  if (name == "path") return WordType::path;
  return std::nullopt;
}

}  // namespace

OptionValues values_of(const OptionDescription& option) {
  OptionValues values;
  std::string_view type = option.type;
  if (type == "path or list of paths") {
    values.is_list = values.is_weighted = true;
    type = "path";
  }
  values.is_optional = take_suffix(type, " or none");
  values.is_list = take_prefix(type, "list of ") || values.is_list;
  const auto word = parse_type(type);
  require(word.has_value(), "{}: unknown type {}", option.key, option.type);
  values.type = *word;
  values.rule = rule_in(option.allowed, values.is_list);
  values.rule.required = option.default_value.empty();
  require(allowed_text(values.rule, values.is_list) == option.allowed,
          "{}: cannot parse its allowed values: {}",
          option.key,
          option.allowed);
  return values;
}

}  // namespace longspan
