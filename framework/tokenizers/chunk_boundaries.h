// Chunk boundaries of a text at which its split into words is unaffected.
#pragma once

#include <cstddef>
#include <string_view>

namespace longspan {

// The pattern of Llama 3; Qwen 2 uses it with single digits.
inline constexpr const char* llama3_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The pattern of GPT-2 (Radford et al. 2019).
inline constexpr const char* gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// SentencePiece's character for a space.
inline constexpr std::string_view space_letter = "\xE2\x96\x81";

// Returns whether the expression's matches are independent across a boundary of `blank_to_cut_at`.
// No match has a blank after another character, and there is no lookbehind.
bool cuts_at_blanks(std::string_view expression);

// Returns whether no normal form composes or reorders the character with preceding ones: letters of
// most scripts, and all characters below U+0300.
bool has_boundary_before(char32_t character);

// Returns the byte of the first space at `least` or later that follows a non-blank character for
// which has_boundary_before holds, or npos. Requires valid UTF-8.
std::size_t blank_to_cut_at(std::string_view text, std::size_t least);

}  // namespace longspan
