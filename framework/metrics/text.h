// Texts as Python's `str` sees them, which the reference programs of the metrics are written in.
// Bytes that are no UTF-8 count as one character each, as after
// bytes.decode("utf-8", "surrogateescape").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace longspan {

// Whether Python's str.isspace() holds of the character.
bool is_space(char32_t code_point);

// str.rstrip().
std::string_view without_trailing_space(std::string_view text);

// str.strip().
std::string_view without_outer_space(std::string_view text);

// The text with a space before and after each character for which `fits` holds.
std::string with_space_around(std::string_view text, bool (*fits)(char32_t));

// str.split(): what stands between runs of white space. The words lie in `text`.
std::vector<std::string_view> words_of(std::string_view text);

// The characters without white space.
std::vector<std::uint32_t> letters_of(std::string_view text);

// Numbers words in the order in which they first come. The words must outlive it.
class WordNumbers {
 public:
  std::uint32_t of(std::string_view word);
  std::vector<std::uint32_t> of(const std::vector<std::string_view>& words);

 private:
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace longspan
