// The byte-to-character map of byte-level tokenizers: printable bytes map to themselves, the others
// to U+0100 and up, in byte order (Radford et al. 2019).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace longspan {

// Indexed by byte.
const std::array<char32_t, 256>& byte_to_unicode();
std::string to_byte_letters(std::string_view bytes);
// Inverts to_byte_letters; nothing where a character maps to no byte.
std::optional<std::string> from_byte_letters(std::string_view letters);

}  // namespace longspan
