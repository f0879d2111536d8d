#include "framework/tokenizers/chunk_boundaries.h"

#include <algorithm>
#include <array>
#include <string>

#include "framework/tokenizers/characters.h"

namespace longspan {
namespace {

std::string with_single_digits() {
  std::string text = llama3_expression;
  const std::string digits = "\\p{N}{1,3}";
  return text.replace(text.find(digits), digits.size(), "\\p{N}");
}

}  // namespace

bool cuts_at_blanks(std::string_view expression) {
  static const std::string qwen2_expression = with_single_digits();
  return expression == gpt2_expression || expression == llama3_expression ||
         expression == qwen2_expression;
}

bool has_boundary_before(char32_t c) {
  // The characters in between have no normal form, or one that begins with a blank.
  if (c < 0x7F) return true;
  struct Range {
    char32_t first;
    char32_t last;
  };
  // Greek and Cyrillic letters, kana, ideographs, and Hangul syllables.
  static constexpr std::array ranges = {Range{0x386, 0x386},
                                        Range{0x388, 0x3FF},
                                        Range{0x400, 0x482},
                                        Range{0x3041, 0x3096},
                                        Range{0x30A1, 0x30FA},
                                        Range{0x3400, 0x4DBF},
                                        Range{0x4E00, 0x9FFF},
                                        Range{0xAC00, 0xD7A3}};
  return std::ranges::any_of(
      ranges, [c](const Range& range) { return c >= range.first && c <= range.last; });
}

std::size_t blank_to_cut_at(std::string_view text, std::size_t least) {
  for (std::size_t at = std::max<std::size_t>(least, 1); at < text.size(); ++at) {
    at = text.find(' ', at);
    if (at == std::string_view::npos) break;
    const char32_t before = character_before(text, at);
    if (before > 0x20 && !is_white_space(before) && has_boundary_before(before)) return at;
  }
  return std::string_view::npos;
}

}  // namespace longspan
