// UTF-8 (RFC 3629), strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longspan {

inline constexpr char32_t replacement_character = 0xFFFD;
inline constexpr char32_t largest_code_point = 0x10FFFF;

enum class Utf8Status : std::uint8_t { valid, invalid, incomplete };

struct Utf8Character {
  Utf8Status status = Utf8Status::invalid;
  char32_t code_point = 0;
  int width = 0;  // bytes that were read; of an invalid sequence, the byte found wrong is the last
};

// The first character of `bytes`, which must not be empty. `incomplete`: what is there is the
// beginning of a valid sequence.
Utf8Character decode_utf8(std::string_view bytes);

void append_utf8(std::string& text, char32_t code_point);

// How messages name a character: "U+00E9 'é'"; no quotation for control characters.
std::string describe_code_point(char32_t code_point);

}  // namespace longspan
