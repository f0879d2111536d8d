#include "framework/options/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/quote.h"
#include "framework/options/field_names.h"

namespace longspan {
namespace {

std::string found_text(const Assignment& assignment) {
  switch (assignment.kind) {
    case Assignment::Kind::scalar:
      return quote(assignment.scalars.front().text);
    case Assignment::Kind::list: {
      std::string text;
      for (const ListItem& item : assignment.scalars) {
        if (!text.empty()) text += ", ";
        text += item.found();
      }
      return fmt::format("the list [{}]", shown(text));
    }
    case Assignment::Kind::nothing:
      return "no value";
    case Assignment::Kind::section:
      return "a section";
  }
  return "";
}

std::string allowed_sentence(const OptionBinding& binding, const Constraint& rule) {
  const ValueForm form = binding.form();
  if (!rule.choices.empty() && !form.is_list) {
    std::vector<std::string> words = rule.choices;
    if (form.is_optional) words.insert(words.begin(), "none");
    return join_or(words);
  }
  const std::string type = type_text_with_article(form), allowed = allowed_text(rule, form.is_list);
  return allowed.empty() ? type : fmt::format("{}, {}", type, allowed);
}

// Returns whether the message's first word is the key.
bool starts_with_key(const std::string& sentence, const std::string& key) {
  const std::size_t end = sentence.find_first_of(" :");
  return sentence.substr(0, end) == key;
}

}  // namespace

std::string ListItem::found() const {
  if (!fields) return text;
  std::string all;
  for (const auto& [name, word] : *fields) {
    if (!all.empty()) all += ", ";
    all += fmt::format("{}: {}", name, word.quoted ? quote(word.text) : word.text);
  }
  return fmt::format("{{{}}}", all);
}

void Constraint::merge(const Constraint& other) {
  if (other.lower) {
    lower = other.lower;
    lower_open = other.lower_open;
  }
  if (other.upper) {
    upper = other.upper;
    upper_open = other.upper_open;
  }
  if (other.multiple) multiple = other.multiple;
  if (!other.choices.empty()) choices = other.choices;
  required = required || other.required;
  not_empty = not_empty || other.not_empty;
  affects_weights = affects_weights || other.affects_weights;
  if (other.in_weights) in_weights = other.in_weights;
  only_with.insert(only_with.end(), other.only_with.begin(), other.only_with.end());
  requirements.insert(requirements.end(), other.requirements.begin(), other.requirements.end());
}

void OptionTable::insert(const std::string& key,
                         std::string documentation,
                         Constraint rule,
                         std::unique_ptr<OptionBinding> binding) {
  require(!has(key), "option {}: declared twice", key);
  require(!is_section(key), "option {}: a section has the same name", key);
  require(key.find('.') != std::string::npos, "option {}: expected a key within a section", key);
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    require(!has(key.substr(0, dot)), "option {}: {} is already a key", key, key.substr(0, dot));
  }
  Entry entry{key, std::move(documentation), std::move(rule), std::move(binding)};
  entry.standard = entry.binding->text();
  entry.default_words = entry.binding->words();
  entry.binding->set_location(key, "default");
  index_.emplace(key, entries_.size());
  entries_.push_back(std::move(entry));
}

void OptionTable::add_rule(std::string_view key, const Constraint& rule) {
  require(has(key), "a rule names the undeclared option {}", key);
  find(key)->rule.merge(rule);
}

void OptionTable::check(std::vector<std::string> keys, std::function<std::string()> sentence) {
  for (const std::string& key : keys) {
    require(has(key), "a check names the undeclared option {}", key);
  }
  checks_.push_back({std::move(keys), std::move(sentence)});
}

void OptionTable::warn(const std::string& key, std::function<std::string()> reason) {
  require(has(key), "a warning names the undeclared option {}", key);
  warnings_.push_back({key, std::move(reason)});
}

void OptionTable::caution(const std::string& key, std::function<std::string()> message) {
  require(has(key), "a warning names the undeclared option {}", key);
  warnings_.push_back({key, std::move(message), false});
}

void OptionTable::note_other_family(const std::string& key, std::string sentence) {
  elsewhere_.emplace(key, std::move(sentence));
}

OptionTable::Entry* OptionTable::find(std::string_view key) {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

const OptionTable::Entry* OptionTable::find(std::string_view key) const {
  return const_cast<OptionTable*>(this)->find(key);
}

bool OptionTable::has(std::string_view key) const { return find(key) != nullptr; }

bool OptionTable::is_section(std::string_view key) const {
  const std::string prefix = fmt::format("{}.", key);
  const auto first = index_.lower_bound(prefix);
  return first != index_.end() && first->first.starts_with(prefix);
}

const OptionTable::Entry& OptionTable::declared(std::string_view key) const {
  const Entry* entry = find(key);
  require(entry != nullptr, "requested the undeclared option {}", key);
  return *entry;
}

std::vector<std::string> OptionTable::keys_of(const std::string& section) const {
  std::vector<std::string> keys;
  for (const Entry& entry : entries_)
    if (entry.key.starts_with(section + ".")) keys.push_back(entry.key);
  return keys;
}

std::string OptionTable::place(std::string_view key) const {
  const Entry& entry = declared(key);
  return entry.mark ? entry.mark->to_string() : "default";
}

bool OptionTable::is_given(std::string_view key) const { return declared(key).mark.has_value(); }

bool OptionTable::is_default(std::string_view key) const {
  const Entry& entry = declared(key);
  return entry.binding->text() == entry.standard;
}

std::string OptionTable::text(std::string_view key) const { return declared(key).binding->text(); }

std::vector<std::string> OptionTable::words(std::string_view key) const {
  return declared(key).binding->words();
}

bool OptionTable::is_list(std::string_view key) const {
  return declared(key).binding->form().is_list;
}

void OptionTable::assign(std::span<const Assignment> assignments) {
  for (const Assignment& assignment : assignments) assign_one(assignment);
}

void OptionTable::assign_one(const Assignment& assignment) {
  if (!assignment.mark.file.empty()) file_ = assignment.mark.file;
  Entry* entry = find(assignment.key);
  if (entry == nullptr) return report_unknown_key(assignment);
  if (entry->mark && !entry->mark->file.empty() && !assignment.mark.file.empty()) {
    return add_diagnostic(
        {assignment.mark,
         fmt::format(
             "{}: duplicate key, first set at {}", assignment.key, entry->mark->to_string()),
         assignment.key});
  }
  entry->mark = assignment.mark;
  const bool is_scalar = assignment.kind == Assignment::Kind::scalar;
  const bool is_list = assignment.kind == Assignment::Kind::list;
  if (!is_scalar && !(is_list && entry->binding->form().is_list)) {
    return report_invalid_value(*entry, assignment, "");
  }
  assign_value(*entry, assignment);
}

void OptionTable::assign_value(Entry& entry, const Assignment& assignment) {
  OptionBinding& binding = *entry.binding;
  std::vector<ListItem> scalars = assignment.scalars;
  for (ListItem& item : scalars) {
    Scalar* path = &item;
    if (item.fields) {
      const auto named =
          std::ranges::find(*item.fields, "path", [](auto& field) { return field.first; });
      if (named == item.fields->end()) continue;
      path = &named->second;
    }
    if (binding.form().word != WordType::path || !starts_at_home(path->text)) continue;
    if (!home_) return report_invalid_value(entry, assignment, "~ requires HOME, which is not set");
    path->text = expand_home(path->text, *home_);
  }
  if (const auto problem = binding.take(scalars, entry.rule))
    return report_invalid_value(entry, assignment, *problem);
  binding.set_location(entry.key, assignment.mark.to_string());
}

void OptionTable::report_invalid_value(Entry& entry,
                                       const Assignment& assignment,
                                       const std::string& problem) {
  entry.wrong = true;
  std::string sentence = fmt::format("{}: expected {}, found {}",
                                     entry.key,
                                     allowed_sentence(*entry.binding, entry.rule),
                                     found_text(assignment));
  if (!problem.empty()) sentence += fmt::format(" ({})", problem);
  sentence += hint_for_value(entry, assignment);
  add_diagnostic({assignment.mark, std::move(sentence), entry.key});
}

void OptionTable::report_unknown_key(const Assignment& assignment) {
  const std::string& key = assignment.key;
  if (is_section(key)) {
    // A section whose keys are all commented out is accepted.
    if (assignment.kind == Assignment::Kind::nothing) return;
    if (assignment.kind == Assignment::Kind::section) return;
    const std::string key_below = meant_below(key, assignment);
    return add_diagnostic(
        {assignment.mark,
         fmt::format("{}: expected a section, found {}; {}",
                     key,
                     found_text(assignment),
                     key_below.empty() ? "set the keys of the section"
                                       : fmt::format("did you mean \"{}\"?", key_below)),
         key});
  }
  if (const auto found = elsewhere_.find(key); found != elsewhere_.end())
    return add_diagnostic({assignment.mark, fmt::format("{} {}", key, found->second), key, true});
  for (std::size_t dot = key.rfind('.'); dot != std::string::npos && dot > 0;
       dot = key.rfind('.', dot - 1)) {
    const Entry* parent = find(key.substr(0, dot));
    if (parent == nullptr) continue;
    std::vector<std::string> keys;
    if (++unknown_keys_ <= max_reported)
      for (const Entry& entry : entries_) keys.push_back(entry.key);
    return add_diagnostic({assignment.mark,
                           fmt::format("{}: expected {}, found a section with the key {}{}",
                                       parent->key,
                                       allowed_sentence(*parent->binding, parent->rule),
                                       quote(key.substr(dot + 1)),
                                       field_hint(key, keys)),
                           parent->key});
  }
  // The search for a similar key is slow, and errors beyond this number are not reported.
  const std::string near = ++unknown_keys_ > max_reported ? "" : suggestion(key);
  add_diagnostic({assignment.mark, fmt::format("{}: unknown key{}", shown(key), near), key, true});
}

void OptionTable::add_diagnostic(Diagnostic diagnostic) {
  complaints_.push_back(std::move(diagnostic));
}

// The location at which missing keys are reported.
SourceLocation OptionTable::common_location() const {
  return SourceLocation{file_.empty() ? "configuration" : file_};
}

// Returns whether the key has a valid value.
bool OptionTable::is_judged(const std::string& key) const {
  const Entry* const entry = find(key);
  return entry == nullptr || (!entry->wrong && (entry->mark || !entry->rule.required));
}

void OptionTable::run_checks(std::vector<Diagnostic>& found) const {
  for (const Check& check : checks_) {
    if (!std::ranges::all_of(check.keys, [&](const std::string& key) { return is_judged(key); }))
      continue;
    std::vector<const Entry*> given;
    for (const std::string& key : check.keys)
      if (const Entry* const entry = find(key); entry->mark) given.push_back(entry);
    std::string sentence = check.message();
    if (sentence.empty()) continue;
    const auto named = std::ranges::find_if(
        given, [&](const Entry* entry) { return starts_with_key(sentence, entry->key); });
    const auto place = named == given.end() ? given.begin() : named;
    const bool has_place = !given.empty();
    found.push_back({has_place ? *(*place)->mark : common_location(),
                     std::move(sentence),
                     has_place ? (*place)->key : check.keys.front()});
  }
}

std::vector<Diagnostic> OptionTable::diagnostics() const {
  std::vector<Diagnostic> found = complaints_;
  for (const Entry& entry : entries_) {
    if (!entry.rule.required || entry.mark) continue;
    found.push_back({common_location(),
                     fmt::format("{}: missing required key; set it to {}",
                                 entry.key,
                                 allowed_sentence(*entry.binding, entry.rule)),
                     entry.key});
  }
  check_requirements(found);
  run_checks(found);
  return found;
}

std::vector<std::string> OptionTable::warnings() const {
  std::vector<Diagnostic> found;
  for (const Entry& entry : entries_) {
    if (!entry.mark || is_default(entry.key)) continue;
    if (const std::string reason = why_ignored(entry.key); !reason.empty())
      found.push_back({*entry.mark, fmt::format("{} is ignored: {}", entry.key, reason)});
  }
  for (const Warning& warning : warnings_) {
    const Entry& entry = *find(warning.key);
    if (!entry.mark || is_default(warning.key) || !why_ignored(warning.key).empty()) continue;
    const std::string reason = warning.reason();
    if (!reason.empty())
      found.push_back(
          {*entry.mark,
           fmt::format("{}{}{}", entry.key, warning.is_ignored ? " is ignored: " : ": ", reason)});
  }
  return lines_of(std::move(found));
}

std::vector<const OptionTable::Entry*> OptionTable::by_section() const {
  // Each section is placed at its first key, at every depth.
  std::map<std::string, std::size_t, std::less<>> first;
  const auto for_each_prefix = [](const std::string& key, auto&& f) {
    for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
      f(key.substr(0, dot));
    }
    f(key);
  };
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    for_each_prefix(entries_[i].key, [&](const std::string& prefix) { first.emplace(prefix, i); });
  }
  std::vector<std::pair<std::vector<std::size_t>, const Entry*>> order;
  for (const Entry& entry : entries_) {
    std::vector<std::size_t> path;
    for_each_prefix(entry.key, [&](const std::string& prefix) { path.push_back(first[prefix]); });
    order.emplace_back(std::move(path), &entry);
  }
  std::stable_sort(
      order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Entry*> entries;
  for (const auto& [path, entry] : order) entries.push_back(entry);
  return entries;
}

std::vector<OptionDescription> OptionTable::reference() const {
  std::vector<OptionDescription> descriptions;
  for (const Entry* entry : by_section()) {
    const ValueForm form = entry->binding->form();
    descriptions.push_back({entry->key,
                            type_text(form),
                            allowed_text(entry->rule, form.is_list),
                            entry->rule.required ? "" : entry->standard,
                            entry->documentation + rules_text(entry->rule),
                            form,
                            entry->rule,
                            "",
                            "",
                            entry->default_words});
  }
  return descriptions;
}

std::vector<OptionValue> OptionTable::values() const {
  std::vector<OptionValue> values;
  for (const Entry* entry : by_section()) {
    values.push_back({entry->key,
                      entry->binding->text(),
                      entry->mark ? entry->mark->to_string() : "default",
                      entry->rule.affects_weights,
                      entry->rule.in_weights});
  }
  return values;
}

}  // namespace longspan
