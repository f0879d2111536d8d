// The field's names of keys, values, commands and options that Longspan names otherwise: for hints
// and searches.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace longspan {

struct FieldName {
  std::string_view names;       // as other programs write them, with spaces between
  std::string_view key;         // or command, or option; empty: none, and `note` has the reason
  std::string_view value = {};  // of the key, where the names are those of a value
  std::string_view note = {};   // what to do, where the key alone does not answer
};

// Keys of the configuration and their values.
std::span<const FieldName> field_names();

// Commands and their options.
std::span<const FieldName> option_names();

enum class NameMatch : std::uint8_t { none, within, beginning, whole };

// How `written`, a key or its last part, matches the best of the names of the entry: it is one of
// them (hyphens, underscores and capitals do not count), begins one, or has one among its words.
NameMatch match(std::string_view written, const FieldName& entry);

// The present name of a key of earlier versions, or "".
std::string_view renamed_key(std::string_view former);
// A hint at it, "; did you mean ...?", with what its values mean now; or "".
std::string renamed_hint(std::string_view former);

// A hint that goes on a message about an unknown key: "; did you mean \"training.max_steps\"?", a
// note, or "" where no key is near. A word without a dot may name a key without its section.
std::string key_hint(std::string_view written, std::span<const std::string> keys);

// The same where `written` is one of the field's names, else "".
std::string field_hint(std::string_view written, std::span<const std::string> keys);

// The same as key_hint for a value of `key` that is none of its choices.
std::string value_hint(std::string_view key,
                       std::string_view written,
                       std::span<const std::string> choices);

// Whether `word` begins a word of `text`, in capitals or not: "lr" begins none of "already".
bool begins_word(std::string_view text, std::string_view word);

}  // namespace longspan
