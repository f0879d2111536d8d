// JSON Schema of the configuration, for editors and other programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "framework/options/options.h"

namespace longspan {

// Returns a schema (draft 2020-12) from the option tables. It has every section and key with its
// type, bounds, choices, default and meaning. The keys of `model` depend on the file's family. It
// does not express constraints between several keys.
nlohmann::ordered_json configuration_schema();

// Types of configuration values, parsed from the reference text.

enum class WordType : std::uint8_t { integer, number, boolean, text, path };

struct OptionValues {
  WordType type = WordType::text;  // of the value, or of each list element
  bool is_list = false;            // a single word is a list of one
  bool is_weighted = false;        // a path of a list may be {path: PATH, weight: NUMBER}
  bool is_optional = false;        // may be none
  Constraint rule = {};            // bounds, choices and emptiness
};

// Returns the type of a key's values. Throws Failure for reference text that it does not support:
// keep it in sync with OptionTable.
OptionValues values_of(const OptionDescription& option);

}  // namespace longspan
