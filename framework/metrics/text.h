// String functions equal to those of Python's `str`, in which the metrics' reference programs are
// written. Bytes that are invalid UTF-8 count as one character each, as after bytes.decode("utf-8",
// "surrogateescape").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace longspan {

// Equals Python's str.isspace() for one character.
bool is_space(char32_t code_point);

// Equals str.rstrip().
std::string_view without_trailing_space(std::string_view text);

// Equals str.strip().
std::string_view without_outer_space(std::string_view text);

// Returns the text with a space before and after each character for which `fits` holds.
std::string with_space_around(std::string_view text, bool (*fits)(char32_t));

// Equals str.split() at white space. The words are views of `text`.
std::vector<std::string_view> words_of(std::string_view text);

// Returns the non-space characters.
std::vector<std::uint32_t> letters_of(std::string_view text);

// Numbers words by first occurrence. The words must outlive it.
class WordNumbers {
 public:
  std::uint32_t of(std::string_view word);
  std::vector<std::uint32_t> of(const std::vector<std::string_view>& words);

 private:
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace longspan
