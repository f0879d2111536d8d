#include "framework/tokenizers/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "framework/tokenizers/unicode_tables.h"

namespace longspan {
namespace {

bool is_in(std::span<const CodePointRange> table, char32_t c) {
  const auto after = std::ranges::upper_bound(table, c, {}, &CodePointRange::first);
  return after != table.begin() && c <= std::prev(after)->last;
}

constexpr CodePointRange chinese[] = {{0x3400, 0x4DBF},
                                      {0x4E00, 0x9FFF},
                                      {0xF900, 0xFAFF},
                                      {0x20000, 0x2A6DF},
                                      {0x2A700, 0x2B81F},
                                      {0x2B920, 0x2CEAF},
                                      {0x2F800, 0x2FA1F}};

std::size_t ascii_bytes(std::string_view text) {
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

constexpr bool is_visible(char32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr std::array<char32_t, 256> letters_of_bytes() {
  std::array<char32_t, 256> letters{};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) letters[byte] = is_visible(byte) ? byte : next++;
  return letters;
}

constexpr std::array<char32_t, 256> letters_by_byte = letters_of_bytes();

// The byte of each character; -1 for unused ones.
constexpr std::array<int, 324> bytes_of_letters() {
  std::array<int, 324> bytes{};
  for (int& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte)
    bytes[letters_by_byte[static_cast<std::size_t>(byte)]] = byte;
  return bytes;
}

constexpr std::array<int, 324> bytes_by_letter = bytes_of_letters();

}  // namespace

std::string character_version() { return utf8proc_version(); }

std::size_t valid_utf8_bytes(std::string_view text) {
  std::size_t at = 0;
  while (true) {
    at += ascii_bytes(text.substr(at));
    if (at == text.size()) return at;
    const Utf8Character character = decode_utf8(text.substr(at));
    if (character.status != Utf8Status::valid) return at;
    at += static_cast<std::size_t>(character.width);
  }
}

std::string utf8_of(char32_t code_point) {
  std::string text;
  append_utf8(text, code_point);
  return text;
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_number(char32_t c) { return is_in(tokenizer_numbers, c); }
bool is_punctuation(char32_t c) { return is_in(tokenizer_punctuation, c); }
bool is_mark(char32_t c) { return is_in(tokenizer_marks, c); }
bool is_accent(char32_t c) { return is_in(tokenizer_accents, c); }
bool is_control(char32_t c) { return is_in(tokenizer_controls, c); }
bool is_word(char32_t c) { return is_in(tokenizer_words, c); }
bool is_chinese(char32_t c) { return is_in(chinese, c); }

void append_lower(std::u32string& text, char32_t c) {
  if (c < 0x80) {
    text.push_back(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  if (c == 0x130) {
    text += U"i\u0307";
    return;
  }
  for (const LowercaseRange& letters : tokenizer_lowercase)
    if (c >= letters.capitals.first && c <= letters.capitals.last) {
      text.push_back(static_cast<char32_t>(static_cast<int>(c) + letters.distance));
      return;
    }
  text.push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

bool decomposes(char32_t c, bool compatible) {
  if (c < 0xA0) return false;
  if (compatible ? is_in(tokenizer_whole_nfkd, c) : is_in(tokenizer_whole_nfd, c)) return false;
  if (c >= 0xAC00 && c <= 0xD7A3) return true;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  return property->decomp_seqindex != UINT16_MAX && (compatible || property->decomp_type == 0);
}

void append_decomposed(std::u32string& text, char32_t c, bool compatible) {
  if (!decomposes(c, compatible)) {
    text.push_back(c);
    return;
  }
  std::array<utf8proc_int32_t, 64> parts{};
  int boundary = 0;
  const auto count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c),
      parts.data(),
      static_cast<utf8proc_ssize_t>(parts.size()),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0)),
      &boundary);
  for (const utf8proc_int32_t part : std::span(parts).first(static_cast<std::size_t>(count)))
    text.push_back(static_cast<char32_t>(part));
}

int mark_order(char32_t c) {
  if (c < 0x300 || is_in(tokenizer_unordered, c)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

char32_t composed(char32_t first, char32_t second) {
  if (second < 0x300) return 0;
  std::array<utf8proc_int32_t, 2> both = {static_cast<utf8proc_int32_t>(first),
                                          static_cast<utf8proc_int32_t>(second)};
  const auto count = utf8proc_normalize_utf32(
      both.data(), 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (count != 1) return 0;
  const auto whole = static_cast<char32_t>(both[0]);
  return is_in(tokenizer_whole_nfd, whole) ? 0 : whole;
}

const std::array<char32_t, 256>& byte_to_unicode() { return letters_by_byte; }

std::string to_byte_letters(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes)
    append_utf8(letters, letters_by_byte[static_cast<unsigned char>(byte)]);
  return letters;
}

std::optional<std::string> from_byte_letters(std::string_view letters) {
  std::string bytes;
  while (!letters.empty()) {
    const NextCharacter next = next_character(letters);
    if (next.code_point >= bytes_by_letter.size() || bytes_by_letter[next.code_point] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(bytes_by_letter[next.code_point]));
    letters.remove_prefix(next.width);
  }
  return bytes;
}

}  // namespace longspan
