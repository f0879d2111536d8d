// What a key of the configuration takes, for programs: read from how the reference says it.
#pragma once

#include <string>

#include "framework/options/options.h"

namespace longspan {

enum class WordType : std::uint8_t { integer, number, boolean, text, path };

struct OptionValues {
  WordType type = WordType::text;  // of the value, or of each of a list
  bool is_list = false;            // where one word stands for a list of one, too
  bool is_weighted = false;        // a path of a list may be {path: PATH, weight: NUMBER}
  bool is_optional = false;        // it may be none
  Constraint rule = {};            // bounds, choices and emptiness
};

// Throws Failure where the reference says it in words that are not known here: OptionTable and this
// belong together.
OptionValues values_of(const OptionDescription& option);

}  // namespace longspan
