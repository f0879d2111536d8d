// Typed options: the one table from which values, error messages, help and the reference page come.
//
// A component has a struct of values with their defaults and a function that binds each to a key:
//
//   struct TrainingOptions { std::int64_t steps = 1000; double clip = 1.0; };
//   void declare(OptionTable& table, TrainingOptions& options) {
//     table.add("training.max_steps", options.steps, "number of optimizer steps", at_least(1));
//     table.add("training.clip", options.clip, "largest norm of the gradient", more_than(0.0));
//   }
//
// Where assignments come from (a file, the command line) is the caller's affair.
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
#include "framework/options/diagnostic.h"

namespace longspan {

// One word as it was written. A quoted one is text, whatever it looks like.
struct Scalar {
  std::string text;
  bool quoted = false;
};

// A word of a list, or a mapping there: words by name, in their order.
struct ListItem : Scalar {
  ListItem() = default;
  ListItem(Scalar word) : Scalar(std::move(word)) {}
  ListItem(std::string word, bool in_quotes = false) : Scalar{std::move(word), in_quotes} {}

  // Of a mapping, whose text is empty.
  std::optional<std::vector<std::pair<std::string, Scalar>>> fields = {};

  // "a.txt", or "{path: a.txt, weight: 2}".
  std::string found() const;
};

// One key and what was written for it, not yet understood.
struct Assignment {
  // `nothing`: "key:" with no value. `section`: an empty mapping.
  enum class Kind : std::uint8_t { scalar, list, nothing, section };

  std::string key;  // the whole path: "training.max_steps"
  Kind kind = Kind::scalar;
  std::vector<ListItem> scalars;  // one for `scalar`
  SourceLocation mark;            // of the key
};

// What a value may be: built by the functions below, combined by `add`. For a list it holds for
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
  // What of the value fixes them; undefined: all of it.
  std::function<std::string(const std::string& text)> in_weights = {};

  void merge(const Constraint& other);
};

// Returns the constraint's text beyond the type: "at least 1 and below 8"; "" if unconstrained.
std::string allowed_text(const Constraint& rule, bool is_list);

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
// Both ends belong to it; for half-open ranges combine two of the above.
template <Number T, Number U>
Constraint between(T lower, U upper) {
  return {.lower = static_cast<double>(lower), .upper = static_cast<double>(upper)};
}
inline Constraint multiple_of(std::int64_t factor) { return {.multiple = factor}; }
inline Constraint one_of(std::vector<std::string> choices) {
  return {.choices = std::move(choices)};
}
// The key must be given: its default means nothing.
inline Constraint required() { return {.required = true}; }
// For texts and lists.
inline Constraint not_empty() { return {.not_empty = true}; }
// A checkpoint written under another value of this key does not fit the model.
inline Constraint affects_weights() { return {.affects_weights = true}; }
// The same of a part of the value: of what the function makes of it as it would be written.
inline Constraint affects_weights(std::function<std::string(const std::string& text)> part) {
  return {.affects_weights = true, .in_weights = std::move(part)};
}

// A key as the reference shows it.
struct OptionDescription {
  std::string key;
  std::string type;           // "integer", "list of text", ...
  std::string allowed;        // "at least 1"; empty when every value of the type is
  std::string default_value;  // the default as it would be written; empty for a required key
  std::string documentation;
  std::string set_to = {};  // in the configuration that the reference is for; empty where nothing
  std::string set_at = {};  // and where
};

// A key with its present value.
struct OptionValue {
  std::string key;
  std::string text;   // as it would be written; reads back to the same bits; "none" when absent
  std::string place;  // "default", "file:line:column" or "--set"
  bool affects_weights = false;
  std::function<std::string(const std::string& text)> in_weights = {};

  // Whether weights made under another value of the key are another model's.
  bool other_weights(const std::string& other) const {
    if (!in_weights) return affects_weights && other != text;
    return affects_weights && in_weights(other) != in_weights(text);
  }
};

// How one variable is read and written.
class OptionBinding {
 public:
  virtual ~OptionBinding() = default;
  virtual bool is_list() const = 0;
  // What the reference calls the type, and a message: "integer", "an integer".
  virtual std::string type() const = 0;
  virtual std::string type_with_article() const = 0;
  // The present value, as it would be written.
  virtual std::string text() const = 0;
  // Takes the value when every scalar is of the type and the rule holds for it, and returns
  // nothing. Else changes nothing and returns what is wrong in a few words, or "" when what is
  // allowed says it.
  virtual std::optional<std::string> take(const std::vector<ListItem>& scalars,
                                          const Constraint& rule) = 0;
  // For a variable that knows what named it.
  virtual bool is_path() const { return false; }
  virtual void tell_place(const std::string& /*key*/, const std::string& /*place*/) {}
};

// Keys bound to variables, which must outlive the table's use. Declare every key, `assign` layer by
// layer (a file, then the command line: later wins), then `finish`.
class OptionTable {
 public:
  // Binds a key. T: std::int64_t, double, bool, std::string, a std::vector of one of these, a
  // std::optional of one of the first four ("none" stands for its absence), or a ConfigPath or
  // PathList, which is told where it was written. What `value` holds now is the default. Throws
  // Failure when the
  // key is there already or is a section's name.
  template <typename T, std::same_as<Constraint>... Rules>
  void add(const std::string& key, T& value, std::string documentation, const Rules&... rules) {
    Constraint rule;
    (rule.merge(rules), ...);
    insert(key, std::move(documentation), std::move(rule), bind(value));
  }

  // Binds a key to an enumeration through the names of its values. With the names "true" and
  // "false" the key is a boolean.
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

  // A condition over several keys, judged by `finish` once each value alone is right: `sentence`
  // returns what is wrong, or nothing. It is reported at the key that it begins with, or else at
  // the first of `keys` that was given.
  void check(std::vector<std::string> keys, std::function<std::string()> sentence);

  // A key that others may leave without effect: `reason` returns why, or nothing. It goes on after
  // "KEY is set, but ".
  void warn(const std::string& key, std::function<std::string()> reason);

  // A key that exists under other circumstances: using it gives `sentence`, which goes on after the
  // key ("is a key of family transformer_xl, not of decoder").
  void note_other_family(const std::string& key, std::string sentence);

  // What "~" stands for in paths; without it they may not begin so.
  void set_home(std::string home) { home_ = std::move(home); }

  // Parses and judges. A key given twice in files is an error; one from the command line wins over
  // what was there. What is wrong is kept for `finish`.
  void assign(std::span<const Assignment> assignments);
  // Adds to what `finish` reports.
  void add_diagnostic(Diagnostic complaint);
  // All that is wrong, with what is missing and what the checks find.
  std::vector<Diagnostic> diagnostics() const;
  // Throws ConfigurationError where something is: see refuse_all.
  void finish() const { throw_if_any(diagnostics()); }
  // After that: a line for each key that was given, is not its default and has no effect, in the
  // order of the file.
  std::vector<std::string> warnings() const;

  bool has(std::string_view key) const;
  // "file:line:column", "--set" or "default". Throws Failure for an unknown key.
  std::string place(std::string_view key) const;
  // The same. Whether the configuration says something of the key, and whether the key's value is
  // the default's, be it given or not.
  bool is_given(std::string_view key) const;
  bool is_default(std::string_view key) const;

  // In the order in which keys were added, sections together.
  std::vector<OptionDescription> reference() const;
  std::vector<OptionValue> values() const;
  // YAML of every value with its place as a comment; reads back to the same bits.
  std::string resolved() const;

 private:
  struct Entry {
    std::string key;
    std::string documentation;
    Constraint rule;
    std::unique_ptr<OptionBinding> binding;
    std::string standard;                // the default's text
    std::optional<SourceLocation> mark;  // of what was assigned last
    bool wrong = false;
  };
  struct Check {
    std::vector<std::string> keys;
    std::function<std::string()> message;
  };
  struct Warning {
    std::string key;
    std::function<std::string()> reason;
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
  void take_value(Entry& entry, const Assignment& assignment);
  void refuse_value(Entry& entry, const Assignment& assignment, const std::string& problem);
  void refuse_unknown(const Assignment& assignment);
  std::string suggestion(std::string_view key) const;
  std::string meant_below(const std::string& section, const Assignment& assignment) const;
  SourceLocation beside_all() const;
  void run_checks(std::vector<Diagnostic>& found) const;

  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;  // where in entries_ a key is
  std::vector<Check> checks_;
  std::vector<Warning> warnings_;
  std::map<std::string, std::string, std::less<>> elsewhere_;  // a key's sentence
  std::vector<Diagnostic> complaints_;
  std::size_t unknown_keys_ = 0;
  std::string file_;  // the last one an assignment came from
  std::optional<std::string> home_;
};

// The reference as aligned text for a terminal, and as a page of Markdown with one table a section.
std::string help_text(std::span<const OptionDescription> reference);
std::string markdown(std::span<const OptionDescription> reference);

}  // namespace longspan
