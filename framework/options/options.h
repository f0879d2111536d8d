// Typed options: the single table behind values, error messages, help and the reference page.
//
// A component has a struct of values with defaults, and a function that binds each to a key:
//
//   struct TrainingOptions { std::int64_t steps = 1000; double clip = 1.0; };
//   void declare(OptionTable& table, TrainingOptions& options) {
//     table.add("training.max_steps", options.steps, "number of optimizer steps", at_least(1));
//     table.add("training.clip", options.clip, "largest norm of the gradient", more_than(0.0));
//   }
//
// The source of the assignments (a file, the command line) is the caller's responsibility.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/core/error.h"
#include "framework/options/condition.h"
#include "framework/options/diagnostic.h"

namespace longspan {

// One scalar as written. A quoted one is always a string.
struct Scalar {
  std::string text;
  bool quoted = false;
};

// A list element: a scalar, or a mapping of names to scalars, in order.
struct ListItem : Scalar {
  ListItem() = default;
  ListItem(Scalar word) : Scalar(std::move(word)) {}
  ListItem(std::string word, bool in_quotes = false) : Scalar{std::move(word), in_quotes} {}

  // Set for a mapping, whose text is empty.
  std::optional<std::vector<std::pair<std::string, Scalar>>> fields = {};

  // Returns "a.txt", or "{path: a.txt, weight: 2}".
  std::string found() const;
};

// A key and its unparsed value.
struct Assignment {
  // `nothing`: "key:" without a value. `section`: an empty mapping.
  enum class Kind : std::uint8_t { scalar, list, nothing, section };

  std::string key;  // full path: "training.max_steps"
  Kind kind = Kind::scalar;
  std::vector<ListItem> scalars;  // one for `scalar`
  SourceLocation mark;            // of the key
};

// Constraint on a value: built by the functions below, combined by `add`. For a list it applies to
// each element.
struct Constraint {
  std::optional<double> lower = std::nullopt;
  std::optional<double> upper = std::nullopt;
  bool lower_open = false;
  bool upper_open = false;
  std::optional<std::int64_t> multiple = std::nullopt;
  std::vector<std::string> choices = {};
  bool required = false;
  bool not_empty = false;
  bool affects_weights = false;
  // Returns the part of the value that determines the weights; undefined: the full value.
  std::function<std::string(const std::string& text)> in_weights = {};
  std::vector<Condition> only_with = {};  // where one is not met, the key is ignored
  std::vector<Requirement> requirements = {};

  void merge(const Constraint& other);
};

// Returns the constraint's text beyond the type: "at least 1 and below 8"; "" if unconstrained.
std::string allowed_text(const Constraint& rule, bool is_list);
// Returns the sentences on other keys that the reference adds to the documentation: ". Only with
// run.task: tagging"; "" if there are none.
std::string rules_text(const Constraint& rule);

template <typename T>
concept Number = std::integral<T> || std::floating_point<T>;

template <Number T>
Constraint at_least(T bound) {
  return {.lower = static_cast<double>(bound)};
}
template <Number T>
Constraint more_than(T bound) {
  return {.lower = static_cast<double>(bound), .lower_open = true};
}
template <Number T>
Constraint at_most(T bound) {
  return {.upper = static_cast<double>(bound)};
}
template <Number T>
Constraint less_than(T bound) {
  return {.upper = static_cast<double>(bound), .upper_open = true};
}
// Inclusive bounds; combine two of the above for half-open ranges.
template <Number T, Number U>
Constraint between(T lower, U upper) {
  return {.lower = static_cast<double>(lower), .upper = static_cast<double>(upper)};
}
inline Constraint multiple_of(std::int64_t factor) { return {.multiple = factor}; }
inline Constraint one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}
// The key must be given: its default is meaningless.
inline Constraint required() { return {.required = true}; }
// For strings and lists.
inline Constraint not_empty() { return {.not_empty = true}; }
// A checkpoint written with another value of this key is incompatible with the model.
inline Constraint affects_weights() { return {.affects_weights = true}; }
// Applies affects_weights to a part of the value, which `part` extracts from its written form.
inline Constraint affects_weights(std::function<std::string(const std::string& text)> part) {
  return {.affects_weights = true, .in_weights = std::move(part)};
}

// The key has no effect unless the condition is met: a given key is ignored with a warning.
inline Constraint only_with(Condition condition) { return {.only_with = {std::move(condition)}}; }
// Another value than the default is an error unless the condition is met.
inline Constraint needs(Condition condition) {
  return {.requirements = {{"", std::move(condition)}}};
}
// The value is an error unless the condition is met.
inline Constraint value_needs(std::string value, Condition condition) {
  return {.requirements = {{std::move(value), std::move(condition)}}};
}
// Another value than the default, or this value, is an error where the condition is met.
inline Constraint excludes(Condition condition) {
  return {.requirements = {{"", std::move(condition), true}}};
}
inline Constraint value_excludes(std::string value, Condition condition) {
  return {.requirements = {{std::move(value), std::move(condition), true}}};
}

enum class WordType : std::uint8_t { integer, number, boolean, text, path };

// Form of a key's values.
struct ValueForm {
  WordType word = WordType::text;  // type of the value, or of each list element
  bool is_list = false;            // a single word is a list of one
  bool is_weighted = false;        // a path of a list may be {path: PATH, weight: NUMBER}
  bool is_optional = false;        // may be none
};

// Return the form as the reference and as a message have it: "integer or none", "none or an
// integer".
std::string type_text(const ValueForm& form);
std::string type_text_with_article(const ValueForm& form);

// A key as the reference describes it.
struct OptionDescription {
  std::string key;
  std::string type;           // "integer", "list of strings", ...
  std::string allowed;        // "at least 1"; empty: every value of the type
  std::string default_value;  // as written in YAML; empty: required key
  std::string documentation;
  ValueForm form = {};
  Constraint rule = {};
  std::string set_to = {};  // value in the reference's configuration; empty: not set
  std::string set_at = {};  // location of that setting
  std::vector<std::string> default_words = {};  // without quotes, one for each element of a list
};

// A key with its current value.
struct OptionValue {
  std::string key;
  std::string text;   // as written in YAML; reads back to the same bits; "none": absent
  std::string place;  // "default", "file:line:column" or "--set"
  bool affects_weights = false;
  std::function<std::string(const std::string& text)> in_weights = {};

  // Returns whether weights trained with another value of the key are incompatible.
  bool other_weights(const std::string& other) const {
    if (!in_weights) return affects_weights && other != text;
    return affects_weights && in_weights(other) != in_weights(text);
  }
};

// Reads and writes one bound variable.
class OptionBinding {
 public:
  virtual ~OptionBinding() = default;
  virtual ValueForm form() const = 0;
  // Returns the current value as written in YAML.
  virtual std::string text() const = 0;
  // Returns the current value without quotes, or each element of a list.
  virtual std::vector<std::string> words() const = 0;
  // Sets the value and returns nothing if every scalar has the type and satisfies the constraint.
  // Otherwise changes nothing and returns a short description, or "" where the constraint's text
  // suffices.
  virtual std::optional<std::string> take(const std::vector<ListItem>& scalars,
                                          const Constraint& rule) = 0;
  // For a variable that stores the key and location that set it.
  virtual void set_location(const std::string& /*key*/, const std::string& /*place*/) {}
};

// Keys bound to variables, which must outlive the table. Declare every key, `assign` layer by layer
// (a file, then the command line: the last one wins), then `finish`.
class OptionTable {
 public:
  // Binds a key. T: std::int64_t, double, bool, std::string, or a std::vector or std::optional of
  // one of these; ConfigPath or PathList. "none" denotes an absent optional. A path receives the
  // location it was written at. The current `value` is the default. Throws Failure when the key
  // exists already or is a section's name.
  template <typename T, std::same_as<Constraint>... Rules>
  void add(const std::string& key, T& value, std::string documentation, const Rules&... rules) {
    Constraint rule;
    (rule.merge(rules), ...);
    insert(key, std::move(documentation), std::move(rule), bind(value));
  }

  // Binds a key to an enumeration by the names of its values. The names "true" and "false" make the
  // key a boolean.
  template <typename E, std::same_as<Constraint>... Rules>
  requires std::is_enum_v<E>
  void add(const std::string& key,
           E& value,
           std::string documentation,
           std::initializer_list<std::pair<std::string, E>> names,
           const Rules&... rules) {
    Constraint rule;
    (rule.merge(rules), ...);
    const std::vector<std::pair<std::string, E>> pairs(names);
    const bool is_boolean = names.begin()->first == "true" || names.begin()->first == "false";
    for (const auto& [name, unused] : pairs)
      if (!is_boolean) rule.choices.push_back(name);
    auto read = [&value, pairs] {
      for (const auto& [name, candidate] : pairs) {
        if (candidate == value) return name;
      }
      throw Failure("the value of an enumeration has no name");
    };
    auto write = [&value, pairs](const std::string& text) {
      for (const auto& [name, candidate] : pairs) {
        if (name == text) value = candidate;
      }
    };
    insert(key, std::move(documentation), std::move(rule), bind(std::move(read), std::move(write)));
  }

  // Adds a rule to a key that another component has declared.
  void add_rule(std::string_view key, const Constraint& rule);

  // Adds a condition over several keys that only_with, needs and excludes do not express, which
  // `finish` checks once each value alone is valid.
  // `sentence` returns the error, or nothing. The error is reported at the key that it begins with,
  // else at the first of `keys` that was given.
  void check(std::vector<std::string> keys, std::function<std::string()> sentence);

  // Adds a warning for a key that something else than only_with may disable: `reason` returns why,
  // or nothing. The warning is "KEY is ignored: REASON".
  void warn(const std::string& key, std::function<std::string()> reason);
  // Adds a warning for a key that has an effect, but probably not the intended one: `message`
  // returns it, or nothing. The warning is "KEY: MESSAGE".
  void caution(const std::string& key, std::function<std::string()> message);

  // Marks a key of another model family: using it reports the key followed by `sentence` ("requires
  // model.family transformer_xl, found decoder").
  void note_other_family(const std::string& key, std::string sentence);

  // Sets the expansion of "~" in paths; without it a path must not begin with "~".
  void set_home(std::string home) { home_ = std::move(home); }

  // Parses and validates. A key given twice in files is an error; the command line overrides files.
  // Errors are collected for `finish`.
  void assign(std::span<const Assignment> assignments);
  // Adds an error to those that `finish` reports.
  void add_diagnostic(Diagnostic diagnostic);
  // Returns all errors, including missing keys and failed checks.
  std::vector<Diagnostic> diagnostics() const;
  // Throws ConfigurationError if there are errors: see throw_if_any.
  void finish() const { throw_if_any(diagnostics()); }
  // Requires finish(). Returns the warnings for given, non-default keys, in file order.
  std::vector<std::string> warnings() const;

  bool has(std::string_view key) const;
  // Returns "file:line:column", "--set" or "default". Throws Failure for an unknown key.
  std::string place(std::string_view key) const;
  // Returns whether the configuration gives the key, and whether its value equals the default,
  // given or not. Both throw Failure for an unknown key.
  bool is_given(std::string_view key) const;
  bool is_default(std::string_view key) const;
  // Return the value as written in YAML, its words without quotes, one for each element of a list,
  // and whether it is a list. All throw Failure for an unknown key.
  std::string text(std::string_view key) const;
  std::vector<std::string> words(std::string_view key) const;
  bool is_list(std::string_view key) const;
  // Returns why the key has no effect, by only_with; empty if it has or is undeclared.
  std::string why_ignored(std::string_view key) const;

  // Returns the keys of a section and its subsections, in order of declaration.
  std::vector<std::string> keys_of(const std::string& section) const;

  // In order of declaration, grouped by section.
  std::vector<OptionDescription> reference() const;
  std::vector<OptionValue> values() const;
  // Returns YAML of every value with its location as a comment; reads back to the same bits.
  std::string resolved() const;

 private:
  struct Entry {
    std::string key;
    std::string documentation;
    Constraint rule;
    std::unique_ptr<OptionBinding> binding;
    std::string standard = {};  // the default's text and words
    std::vector<std::string> default_words = {};
    std::optional<SourceLocation> mark = {};  // of the last assignment
    bool wrong = false;
  };
  struct Check {
    std::vector<std::string> keys;
    std::function<std::string()> message;
  };
  struct Warning {
    std::string key;
    std::function<std::string()> reason;
    bool is_ignored = true;  // the key; otherwise `reason` is the whole message
  };

  static std::unique_ptr<OptionBinding> bind(std::int64_t& value);
  static std::unique_ptr<OptionBinding> bind(double& value);
  static std::unique_ptr<OptionBinding> bind(bool& value);
  static std::unique_ptr<OptionBinding> bind(std::string& value);
  static std::unique_ptr<OptionBinding> bind(ConfigPath& value);
  static std::unique_ptr<OptionBinding> bind(PathList& value);
  static std::unique_ptr<OptionBinding> bind(std::vector<std::int64_t>& value);
  static std::unique_ptr<OptionBinding> bind(std::vector<double>& value);
  static std::unique_ptr<OptionBinding> bind(std::vector<bool>& value);
  static std::unique_ptr<OptionBinding> bind(std::vector<std::string>& value);
  static std::unique_ptr<OptionBinding> bind(std::optional<std::int64_t>& value);
  static std::unique_ptr<OptionBinding> bind(std::optional<double>& value);
  static std::unique_ptr<OptionBinding> bind(std::optional<bool>& value);
  static std::unique_ptr<OptionBinding> bind(std::optional<std::string>& value);
  static std::unique_ptr<OptionBinding> bind(std::function<std::string()> read,
                                             std::function<void(const std::string&)> write);

  void insert(const std::string& key,
              std::string documentation,
              Constraint rule,
              std::unique_ptr<OptionBinding> binding);
  Entry* find(std::string_view key);
  const Entry* find(std::string_view key) const;
  const Entry& declared(std::string_view key) const;
  bool is_section(std::string_view key) const;
  std::vector<const Entry*> by_section() const;
  void assign_one(const Assignment& assignment);
  void assign_value(Entry& entry, const Assignment& assignment);
  void report_invalid_value(Entry& entry, const Assignment& assignment, const std::string& problem);
  void report_unknown_key(const Assignment& assignment);
  static std::string hint_for_value(const Entry& entry, const Assignment& assignment);
  std::string section_of_unknown(std::string_view key) const;
  std::string suggestion(std::string_view key) const;
  std::string meant_below(const std::string& section, const Assignment& assignment) const;
  SourceLocation common_location() const;
  bool is_judged(const std::string& key) const;
  void check_requirements(std::vector<Diagnostic>& found) const;
  void run_checks(std::vector<Diagnostic>& found) const;

  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;  // a key's index in entries_
  std::vector<Check> checks_;
  std::vector<Warning> warnings_;
  std::map<std::string, std::string, std::less<>> elsewhere_;  // a key's message for other families
  std::vector<Diagnostic> complaints_;
  std::size_t unknown_keys_ = 0;
  std::string file_;  // file of the last assignment
  std::optional<std::string> home_;
};

// The reference as aligned text for a terminal, and as a Markdown page with one table per section.
std::string help_text(std::span<const OptionDescription> reference);
std::string markdown(std::span<const OptionDescription> reference);

}  // namespace longspan
