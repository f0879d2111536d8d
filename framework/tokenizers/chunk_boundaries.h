// Where a text can be cut so that its parts are cut into words as the whole of it is.
#pragma once

#include <cstddef>
#include <string_view>

namespace longspan {

// How Llama 3 cuts text; Qwen 2 does so with single digits.
inline constexpr const char* llama3_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// How GPT-2 does (Radford et al. 2019).
inline constexpr const char* gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// How SentencePiece, and who follows it, writes a space.
inline constexpr std::string_view space_letter = "\xE2\x96\x81";

// Whether an expression is one of those whose matches are the same before and behind a blank of
// `blank_to_cut_at`: none has a blank behind another character, and none looks at what is before
// it.
bool cuts_at_blanks(std::string_view expression);

// Whether no normal form puts a character into one with what stands before it, nor into another
// order: letters of most scripts, and all below U+0300.
bool begins_anew(char32_t character);

// The byte of the first space at `least` or later that stands behind a character that is no blank
// and begins anew; npos where there is none. Of valid UTF-8.
std::size_t blank_to_cut_at(std::string_view text, std::size_t least);

}  // namespace longspan
