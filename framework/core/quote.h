// Quoting, truncation, splitting and comparison of text for messages and files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// Returns the text as one YAML scalar: plain where that is safe, else in double quotes.
std::string yaml_word(const std::string& text);

// Returns the text in quotes with control characters escaped, truncated so that file contents
// cannot inflate a message.
std::string quote(std::string_view text);

// Returns the text truncated, without quotes and escapes, for third-party messages that include
// file contents.
std::string truncated(std::string_view text, std::size_t most = 80);

// Returns "folders \"a\", \"b\", \"c\" and 7 more" for the noun "folders": the first few words.
std::string some_in_quotes(std::span<const std::string> words, const std::string& noun);

// Returns the text with A to Z in lowercase.
std::string lower_case(std::string_view text);

// Returns the parts between the separators: one more than there are separators, each possibly
// empty.
std::vector<std::string> split(std::string_view text, char separator);

// Returns "a, b or c".
std::string join_or(std::span<const std::string> words);

// Returns the Damerau-Levenshtein distance: insertions, deletions, replacements, swaps of adjacent
// characters.
std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns the word closest to `text`, or "" when none is close.
std::string closest_match(std::string_view text, std::span<const std::string> words);

// Returns quote() without the quotes, for a key or a list.
std::string shown(std::string_view text);

}  // namespace longspan
