#include "framework/metrics/text.h"

#include <algorithm>

#include "framework/core/utf8.h"

namespace longspan {
namespace {

// Returns the first character of a non-empty text.
Utf8Character first_character(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text.front());
  if (byte < 0x80) return {Utf8Status::valid, byte, 1};  // fast path for ASCII
  const Utf8Character character = decode_utf8(text);
  if (character.status == Utf8Status::valid) return character;
  return {Utf8Status::invalid, char32_t{0xDC00} + byte, 1};
}

// Calls f(code point, begin, end) for each character.
template <typename F>
void each_character(std::string_view text, const F& f) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    const Utf8Character character = first_character(text.substr(begin));
    const std::size_t end = begin + static_cast<std::size_t>(character.width);
    f(character.code_point, begin, end);
    begin = end;
  }
}

}  // namespace

bool is_space(char32_t code_point) {
  if (code_point < 0x80)
    return code_point == ' ' || (code_point >= 0x09 && code_point <= 0x0D) ||
           (code_point >= 0x1C && code_point <= 0x1F);
  switch (code_point) {
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return code_point >= 0x2000 && code_point <= 0x200A;
  }
}

std::string_view without_trailing_space(std::string_view text) {
  std::size_t size = 0;
  each_character(text, [&](char32_t code_point, std::size_t, std::size_t end) {
    if (!is_space(code_point)) size = end;
  });
  return text.substr(0, size);
}

std::string_view without_outer_space(std::string_view text) {
  std::size_t begin = text.size();
  each_character(text, [&](char32_t code_point, std::size_t at, std::size_t) {
    if (!is_space(code_point)) begin = std::min(begin, at);
  });
  return without_trailing_space(text.substr(begin));
}

std::string with_space_around(std::string_view text, bool (*fits)(char32_t)) {
  std::string result;
  each_character(text, [&](char32_t code_point, std::size_t begin, std::size_t end) {
    const char* const space = fits(code_point) ? " " : "";
    result += space;
    result += text.substr(begin, end - begin);
    result += space;
  });
  return result;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  const auto end_word = [&](std::size_t end) {
    if (end > begin) words.push_back(text.substr(begin, end - begin));
  };
  each_character(text, [&](char32_t code_point, std::size_t at, std::size_t next) {
    if (!is_space(code_point)) return;
    end_word(at);
    begin = next;
  });
  end_word(text.size());
  return words;
}

std::vector<std::uint32_t> letters_of(std::string_view text) {
  std::vector<std::uint32_t> letters;
  letters.reserve(text.size());
  each_character(text, [&](char32_t code_point, std::size_t, std::size_t) {
    if (!is_space(code_point)) letters.push_back(static_cast<std::uint32_t>(code_point));
  });
  return letters;
}

std::uint32_t WordNumbers::of(std::string_view word) {
  const auto next = static_cast<std::uint32_t>(numbers_.size());
  return numbers_.try_emplace(word, next).first->second;
}

std::vector<std::uint32_t> WordNumbers::of(const std::vector<std::string_view>& words) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(words.size());
  for (const std::string_view word : words) numbers.push_back(of(word));
  return numbers;
}

}  // namespace longspan
