// Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longspan {

inline constexpr char32_t replacement_character = 0xFFFD;
inline constexpr char32_t max_code_point = 0x10FFFF;

enum class Utf8Status : std::uint8_t { valid, invalid, incomplete };

struct Utf8Character {
  Utf8Status status = Utf8Status::invalid;
  char32_t code_point = 0;
  int width = 0;  // bytes consumed; the last one is the offending byte of an invalid sequence
};

// Decodes the first character of `bytes`, which must not be empty. `incomplete`: the bytes are a
// prefix of a valid sequence.
Utf8Character decode_utf8(std::string_view bytes);

void append_utf8(std::string& text, char32_t code_point);

// Returns a character's name for messages: "U+00E9 'é'"; without quotation for control characters.
std::string describe_code_point(char32_t code_point);

// Sample of a validation input. UTF-8.
struct TextSample {
  std::string input;
  std::string output;
  std::string reference;  // the gold target
};

}  // namespace longspan
