// Conditions on the values of other keys. They are declared with a key:
//
//   table.add("training.lr_scheduler.decay_type", options.decay, "shape of the decay",
//             only_with(is("training.lr_scheduler.type", {"warmup_stable_decay"})));
//
// and give its reference text, the message where one does not hold, and the JSON Schema.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace longspan {

class OptionTable;

// A condition that the value of a key meets or not. It counts as met where the key is undeclared.
// `only_with` counts it as not met where its key is ignored itself.
struct Condition {
  std::string key = {};
  // The value, or an element of the list, is one of these, or none of them.
  std::vector<std::string> values = {};
  bool is_negated = false;
  // The value is above this number. Without it and without values: the key is set, to another value
  // than none, false, 0, "" and [].
  std::optional<double> bound = {};

  // If not empty, the condition is that one of these is met.
  std::vector<Condition> alternatives = {};

  // For conditions that the values alone do not express: replaces text().
  std::string phrase = {};
  // For these: returns why the table does not meet the condition, or nothing.
  std::function<std::string(const OptionTable&)> reason = {};

  // Returns whether a key with these words meets the condition on its value.
  bool is_met(const std::vector<std::string>& words) const;
  // Returns the condition as in "only with ...": "run.task: tagging or classification".
  std::string text() const;
  // Returns why it is not met, "run.task is translation"; empty if it is.
  std::string unmet(const OptionTable& table) const;
};

// The key has one of these values, or contains one if it is a list.
inline Condition is(std::string key, std::vector<std::string> values) {
  return {.key = std::move(key), .values = std::move(values)};
}
inline Condition is_not(std::string key, std::string value) {
  return {.key = std::move(key), .values = {std::move(value)}, .is_negated = true};
}
inline Condition is_above(std::string key, double bound) {
  return {.key = std::move(key), .bound = bound};
}
inline Condition is_set(std::string key) { return {.key = std::move(key)}; }
inline Condition any_of(std::vector<Condition> alternatives) {
  return {.alternatives = std::move(alternatives)};
}

// A rule that makes a configuration invalid.
struct Requirement {
  std::string value;  // of the key that it belongs to; empty: each value other than the default
  Condition condition;
  bool is_excluded = false;  // the condition must not be met

  // Returns the rule in the reference up to the condition: "images requires", "Requires".
  std::string beginning() const;
  // Returns the error for a key with this value, or nothing.
  std::string problem(const std::string& key, const OptionTable& table) const;
};

}  // namespace longspan
