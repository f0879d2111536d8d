// A configuration with keys of every type.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/options/options.h"

namespace longspan::fuzzing {

// Not copyable: the table has references to the members.
class EveryOption {
 public:
  EveryOption() {
    table_.add("every.integer", integer_, "a number", between(-5, 100), multiple_of(5));
    table_.add("every.number", number_, "a number", more_than(0.0), less_than(2.0));
    table_.add("every.flag", flag_, "yes or no");
    table_.add("every.text", text_, "a text", not_empty());
    table_.add("every.choice", choice_, "a text", one_of({"one", "two"}));
    table_.add("every.path", path_, "a path");
    table_.add("every.integers", integers_, "numbers", at_least(1));
    table_.add("every.numbers", numbers_, "numbers", at_most(1e6));
    table_.add("every.flags", flags_, "yes or no");
    table_.add("every.texts", texts_, "texts", not_empty());
    table_.add("every.maybe.integer", maybe_integer_, "a number or none");
    table_.add("every.maybe.number", maybe_number_, "a number or none");
    table_.add("every.maybe.flag", maybe_flag_, "yes, no or none");
    table_.add("every.maybe.text", maybe_text_, "a text or none");
    table_.add("every.files", files_, "paths, with weights where one likes");
    table_.note_other_family("every.other", "requires another model.family");
    table_.set_home("/home/someone");
  }
  EveryOption(const EveryOption&) = delete;
  EveryOption& operator=(const EveryOption&) = delete;

  OptionTable& table() { return table_; }
  std::map<std::string, std::string> values() const {
    std::map<std::string, std::string> all;
    for (const OptionValue& value : table_.values()) all[value.key] = value.text;
    return all;
  }

 private:
  OptionTable table_;
  std::int64_t integer_ = 0;
  double number_ = 1;
  bool flag_ = false;
  std::string text_ = "text";
  std::string choice_ = "one";
  ConfigPath path_;
  std::vector<std::int64_t> integers_ = {1};
  std::vector<double> numbers_;
  std::vector<bool> flags_;
  std::vector<std::string> texts_;
  std::optional<std::int64_t> maybe_integer_;
  std::optional<double> maybe_number_;
  std::optional<bool> maybe_flag_;
  std::optional<std::string> maybe_text_;
  PathList files_;
};

}  // namespace longspan::fuzzing
