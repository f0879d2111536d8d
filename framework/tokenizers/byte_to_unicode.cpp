#include "framework/tokenizers/byte_to_unicode.h"

#include "framework/tokenizers/characters.h"

namespace longspan {
namespace {

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
