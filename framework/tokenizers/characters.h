// Character classes as in the package `tokenizers` (unicode_tables.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/utf8.h"

namespace longspan {

// Returns the version of the Unicode library for case mapping and decomposition.
std::string character_version();

// Returns the length of the longest valid UTF-8 prefix.
std::size_t valid_utf8_bytes(std::string_view text);

struct NextCharacter {
  char32_t code_point = 0;
  std::size_t width = 0;
};
// Requires valid, non-empty UTF-8.
inline NextCharacter next_character(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const char32_t first = byte(0);
  const auto more = [byte](std::size_t i) { return char32_t{byte(i)} & 0x3F; };
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | more(1), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | more(1) << 6 | more(2), 3};
  return {(first & 0x07) << 18 | more(1) << 12 | more(2) << 6 | more(3), 4};
}

// Returns the start of the character that ends before byte `at` > 0 of valid UTF-8.
inline std::size_t previous_character(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}
inline char32_t character_before(std::string_view text, std::size_t at) {
  return next_character(text.substr(previous_character(text, at))).code_point;
}

std::string utf8_of(char32_t code_point);

bool is_white_space(char32_t c);  // White_Space
bool is_number(char32_t c);       // general category N
bool is_punctuation(char32_t c);  // general category P, or ASCII punctuation
bool is_mark(char32_t c);         // general category M
bool is_accent(char32_t c);       // general category Mn
bool is_control(char32_t c);      // removed by BERT: control characters and U+FFFD
bool is_word(char32_t c);         // \w of Unicode's regular expressions
bool is_chinese(char32_t c);      // a CJK ideograph, as defined by BERT
// Appends the lowercase form, which may be two characters.
void append_lower(std::u32string& text, char32_t c);

// Returns whether the canonical (or compatibility) decomposition differs from the character.
bool decomposes(char32_t c, bool compatible);
// Appends the full decomposition, including Hangul.
void append_decomposed(std::u32string& text, char32_t c, bool compatible);
// Returns Canonical_Combining_Class; 0 for characters other than marks.
int mark_order(char32_t c);
// Returns the composition of two characters, or 0.
char32_t composed(char32_t first, char32_t second);

// The byte-to-character map of byte-level tokenizers: printable bytes map to themselves, the others
// to U+0100 and up, in byte order (Radford et al. 2019).

// Indexed by byte.
const std::array<char32_t, 256>& byte_to_unicode();
std::string to_byte_letters(std::string_view bytes);
// Inverts to_byte_letters; nothing where a character maps to no byte.
std::optional<std::string> from_byte_letters(std::string_view letters);

}  // namespace longspan
