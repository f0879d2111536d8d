// Common names in the field of keys, values, commands and options that Longspan names differently:
// for hints and searches.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace longspan {

struct FieldName {
  std::string_view names;       // as other programs write them, separated by spaces
  std::string_view key;         // key, command or option; empty: none, and `note` has the reason
  std::string_view value = {};  // value of the key, where the names are a value's
  std::string_view note = {};   // advice where the key or value alone does not answer
};

// Keys of the configuration and their values.
std::span<const FieldName> field_names();

// Commands and their options.
std::span<const FieldName> option_names();

enum class NameMatch : std::uint8_t { none, within, beginning, whole, qualified };

// Returns how `written`, a key or its last component, matches the entry's best name: ending with a
// name in a section, equal (ignoring hyphens, underscores and case), a prefix, or containing it as
// a word.
NameMatch match(std::string_view written, const FieldName& entry);

// Returns the current name of a key of earlier versions, or "".
std::string_view renamed_key(std::string_view former);
// Returns a hint at it, "; did you mean ...?", with the current meaning of its values, or "".
std::string renamed_hint(std::string_view former);

// Returns a hint to append to a message about an unknown key: "; did you mean
// \"training.max_steps\"?", a note, or "" where no key is close. A word without a dot may match a
// key without its section.
std::string key_hint(std::string_view written, std::span<const std::string> keys);

// Returns that hint where `written` is a common name of the field, else "".
std::string field_hint(std::string_view written, std::span<const std::string> keys);

// Returns the hint for invalid values of `key`, as key_hint does for a key. Without choices the
// type determines the values.
std::string value_hint(std::string_view key,
                       std::span<const std::string> written,
                       std::span<const std::string> choices);

// Returns whether `word` begins a word of `text`, ignoring case: "lr" begins no word of "already".
bool starts_word_piece(std::string_view text, std::string_view word);

}  // namespace longspan
