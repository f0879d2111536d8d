// The characters that byte-level tokenizers write for bytes: themselves where they can be seen, and
// those from U+0100 on, in the order of the bytes, for the others (Radford et al. 2019).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace longspan {

// Of each byte.
const std::array<char32_t, 256>& byte_to_unicode();
std::string to_byte_letters(std::string_view bytes);
// The inverse; none where a character stands for no byte.
std::optional<std::string> from_byte_letters(std::string_view letters);

}  // namespace longspan
