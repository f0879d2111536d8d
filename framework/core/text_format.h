// Recognizes by its first bytes what is no plain text.
#pragma once

#include <cstddef>
#include <string_view>

namespace longspan {

// As many first bytes as are compared.
inline constexpr std::size_t text_format_bytes = 512;

// Returns the bytes of the UTF-8 byte order mark (EF BB BF) that a text begins with: 3 or 0. Throws
// DataError, which begins with `place`, for the beginning of a compressed file, an archive, a
// document or an array of another format, and for the byte order marks of UTF-16 and UTF-32.
std::size_t byte_order_mark(std::string_view beginning, std::string_view place);

}  // namespace longspan
