// Detects files that are not plain text by their first bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace longspan {

// Number of leading bytes that are compared.
inline constexpr std::size_t text_format_bytes = 512;

// Returns the length in bytes of the text's UTF-8 byte order mark (EF BB BF): 3 or 0. Throws
// DataError, prefixed with `place`, for a compressed file, an archive, a document or an array of
// another format. Also throws it for the byte order marks of UTF-16 and UTF-32.
std::size_t byte_order_mark(std::string_view beginning, std::string_view place);

}  // namespace longspan
