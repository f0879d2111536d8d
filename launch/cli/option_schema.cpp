#include "launch/cli/option_schema.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/decimal.h"
#include "framework/core/quote.h"

namespace longspan {
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
