// Quoting, truncation and comparison of text for messages and files.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace longspan {

// A text as one YAML word: as it is where that is safe, else in double quotes.
std::string yaml_word(const std::string& text);

// The text in quotes for a message, control characters escaped, shortened when it is long: a
// message never grows with what a file says.
std::string quote(std::string_view text);

// The same without quotes and escapes, for words that others made of what a file says.
std::string truncated(std::string_view text, std::size_t most = 80);

// "folders \"a\", \"b\", \"c\" and 7 more", of the noun "folders": the first few words.
std::string some_in_quotes(std::span<const std::string> words, const std::string& noun);

// With small letters A to Z.
std::string lower_case(std::string_view text);

// "a, b or c".
std::string join_or(std::span<const std::string> words);

// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The word nearest to `text`, or "" when none is near.
std::string closest_match(std::string_view text, std::span<const std::string> words);

// quote() without the quotes, for a key or a list.
std::string shown(std::string_view text);

}  // namespace longspan
