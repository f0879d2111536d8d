#include "framework/options/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/core/decimal.h"
#include "framework/core/quote.h"
#include "framework/options/options.h"

namespace longspan {
namespace {

// Returns whether a key's words set it. A file named 0 or false would not.
bool is_set(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 4> unset = {"none", "false", "0", ""};
  return !std::ranges::all_of(
      words, [&](const std::string& word) { return std::ranges::count(unset, word) > 0; });
}

}  // namespace

bool Condition::is_met(const std::vector<std::string>& words) const {
  if (!values.empty())
    return is_negated != std::ranges::any_of(words, [&](const std::string& word) {
             return std::ranges::count(values, word) > 0;
           });
  if (!bound) return is_set(words);
  if (words.empty()) return false;
  const auto number = parse_number(words.front());
  return number.good && number.value > *bound;
}

std::string Condition::text() const {
  if (!phrase.empty()) return phrase;
  if (!alternatives.empty()) {
    std::vector<std::string> texts;
    for (const Condition& condition : alternatives) texts.push_back(condition.text());
    return join_or(texts);
  }
  if (!values.empty())
    return fmt::format("{}{} {}", key, is_negated ? " other than" : ":", join_or(values));
  return bound ? fmt::format("{} above {}", key, format_number(*bound)) : key;
}

std::string Condition::unmet(const OptionTable& table) const {
  if (reason) return reason(table);
  if (!alternatives.empty()) {
    std::vector<std::string> reasons;
    for (const Condition& condition : alternatives) {
      reasons.push_back(table.why_ignored(condition.key));
      if (reasons.back().empty()) reasons.back() = condition.unmet(table);
      if (reasons.back().empty()) return "";
    }
    return fmt::format("{}", fmt::join(reasons, " and "));
  }
  if (!table.has(key)) return "";
  const std::vector<std::string> words = table.words(key);
  if (is_met(words)) return "";
  if (table.is_list(key) && !values.empty() && !is_negated)
    return fmt::format("{} does not contain {}", key, join_or(values));
  const std::string found = words.empty() ? "" : words.front();
  const bool is_absent = found.empty() || found == "none";
  return is_absent && values.empty() ? fmt::format("{} is not set", key)
                                     : fmt::format("{} is {}", key, found);
}

std::string Requirement::beginning() const {
  const char* const verb = is_excluded ? "cannot be combined with" : "requires";
  if (!value.empty()) return fmt::format("{} {}", value, verb);
  return is_excluded ? "Cannot be combined with" : "Requires";
}

std::string Requirement::problem(const std::string& key, const OptionTable& table) const {
  const auto is_undeclared = [&](const Condition& each) {
    return !each.key.empty() && !table.has(each.key);
  };
  if (is_undeclared(condition) || std::ranges::any_of(condition.alternatives, is_undeclared))
    return "";
  const bool applies =
      value.empty() ? !table.is_default(key) : table.words(key) == std::vector<std::string>{value};
  const std::string unmet = condition.unmet(table);
  if (!applies || unmet.empty() != is_excluded) return "";
  const std::string subject = fmt::format("{}: {}", key, table.text(key));
  if (is_excluded) return fmt::format("{} cannot be combined with {}", subject, condition.text());
  const bool has_found = !condition.values.empty() || condition.bound;
  return fmt::format("{} requires {}{}",
                     subject,
                     condition.text(),
                     has_found ? ", found " + table.text(condition.key) : "");
}

std::string OptionTable::why_ignored(std::string_view key) const {
  const Entry* const entry = find(key);
  if (entry == nullptr) return "";
  for (const Condition& condition : entry->rule.only_with) {
    std::string reason = why_ignored(condition.key);
    if (reason.empty()) reason = condition.unmet(*this);
    if (!reason.empty()) return reason;
  }
  return "";
}

void OptionTable::check_requirements(std::vector<Diagnostic>& found) const {
  for (const Entry& entry : entries_) {
    for (const Requirement& requirement : entry.rule.requirements) {
      const std::string& other = requirement.condition.key;
      const auto& alternatives = requirement.condition.alternatives;
      if (!is_judged(entry.key) || !is_judged(other) ||
          !std::ranges::all_of(alternatives,
                               [&](const Condition& each) { return is_judged(each.key); }))
        continue;
      std::string sentence = requirement.problem(entry.key, *this);
      if (sentence.empty()) continue;
      if (requirement.is_excluded)
        sentence += requirement.value.empty() ? fmt::format("; set it to {}", entry.standard)
                                              : "; change one of them";
      const Entry* const setter = find(other);
      const Entry& place = entry.mark || setter == nullptr ? entry : *setter;
      found.push_back({place.mark.value_or(common_location()), std::move(sentence), place.key});
      break;
    }
  }
}

}  // namespace longspan
