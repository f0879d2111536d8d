// Hints of the errors about unknown keys and invalid values.
#include <fmt/format.h>

#include <algorithm>

#include "framework/core/quote.h"
#include "framework/options/field_names.h"
#include "framework/options/options.h"

namespace longspan {

std::string OptionTable::hint_for_value(const Entry& entry, const Assignment& assignment) {
  const std::vector<std::string>& choices = entry.rule.choices;
  const bool is_scalar = assignment.kind == Assignment::Kind::scalar;
  const std::string word = is_scalar ? assignment.scalars.front().text : "";
  const bool is_switch = word == "none" || word == "false" || (word == "true" && !choices.empty());
  if (entry.binding->form().is_list && is_switch) {
    if (entry.rule.not_empty) return fmt::format("; write a list, such as {}", entry.standard);
    return entry.standard == "[]" ? "; write [] for none"
                                  : fmt::format("; write [] for none, or {}", entry.standard);
  }
  const bool is_list_of_names = assignment.kind == Assignment::Kind::list &&
                                entry.binding->form().is_list && !choices.empty();
  if (!is_scalar && !is_list_of_names) return "";
  std::vector<std::string> words;
  for (const ListItem& item : assignment.scalars)
    if (std::ranges::count(choices, item.text) == 0) words.push_back(item.text);
  return value_hint(entry.key, words, choices);
}

// Returns the key of the section that a value given for the section itself was probably meant for;
// "" if unknown.
std::string OptionTable::meant_below(const std::string& section,
                                     const Assignment& assignment) const {
  const std::string prefix = section + ".";
  for (const Entry& entry : entries_)
    if (entry.key.starts_with(prefix) && assignment.kind == Assignment::Kind::scalar &&
        std::ranges::count(entry.rule.choices, assignment.scalars.front().text) > 0)
      return entry.key;
  if (assignment.kind == Assignment::Kind::scalar)
    for (const FieldName& name : field_names())
      if (name.key.starts_with(prefix) && !name.value.empty() && has(name.key) &&
          match(assignment.scalars.front().text, name) == NameMatch::whole)
        return std::string(name.key);
  if (const std::string_view key = renamed_key(section); has(key)) return std::string(key);
  for (const char* const leaf : {"type", "path", "rank", "interval"})
    if (has(prefix + leaf)) return prefix + leaf;
  return "";
}

// Returns the deepest section of the key, which may lack its first sections: that of "optimizer.x"
// is training.optimizer. "" if it has none.
std::string OptionTable::section_of_unknown(std::string_view key) const {
  for (std::size_t dot = key.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = key.rfind('.', dot - 1)) {
    const std::string part = fmt::format(".{}.", key.substr(0, dot));
    for (const Entry& entry : entries_)
      if (const std::size_t at = fmt::format(".{}", entry.key).find(part); at != std::string::npos)
        return entry.key.substr(0, at + part.size() - 2);
  }
  return "";
}

std::string OptionTable::suggestion(std::string_view key) const {
  std::vector<std::string> keys;
  std::vector<std::string> sections;
  for (const Entry& entry : entries_) {
    keys.push_back(entry.key);
    std::string section = entry.key.substr(0, entry.key.find('.'));
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) {
      sections.push_back(std::move(section));
    }
  }
  const std::string near_section =
      key.find('.') == std::string_view::npos ? closest_match(key, sections) : "";
  if (!near_section.empty()) return fmt::format("; did you mean \"{}\"?", near_section);
  if (std::string hint = key_hint(key, keys); !hint.empty()) return hint;
  const std::string section = section_of_unknown(key);
  if (section.empty())
    return fmt::format("; use one of the sections {}", fmt::join(sections, ", "));
  std::vector<std::string_view> neighbors;  // direct child keys and sections
  for (const std::string_view candidate : keys) {
    if (!candidate.starts_with(fmt::format("{}.", section))) continue;
    const std::string_view rest_of_key = candidate.substr(section.size() + 1);
    const std::string_view child = rest_of_key.substr(0, rest_of_key.find('.'));
    if (std::ranges::find(neighbors, child) == neighbors.end()) neighbors.push_back(child);
  }
  constexpr std::size_t most = 20;  // bounds the length of the message
  std::string rest;
  if (neighbors.size() > most) {
    rest = fmt::format(
        " and {} more (run longspan config --reference {})", neighbors.size() - most, section);
    neighbors.resize(most);
  }
  return fmt::format(
      "; use one of the keys of {}: {}{}", section, fmt::join(neighbors, ", "), rest);
}

}  // namespace longspan
