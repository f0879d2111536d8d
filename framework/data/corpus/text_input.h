// Text files, plain or compressed.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "framework/core/input_file.h"

namespace longspan {

// Opens a text file and drops its byte order mark. A file compressed by gzip or zstd stays
// compressed; DecompressedFile reads it. Throws DataError as InputFile does, and as byte_order_mark
// does for a file that is not text.
std::shared_ptr<const InputFile> open_text(const ConfigPath& path);

// Opens a text file for random access, decompressed into a temporary file if necessary. Throws as
// open_text and as DecompressedFile.
std::shared_ptr<const InputFile> open_plain_text(const ConfigPath& path);
std::shared_ptr<const InputFile> plain_text_of(InputFile file);

// Opens the decompressed bytes of a file, which need not be text.
std::shared_ptr<const InputFile> open_decompressed(const ConfigPath& path);

// Detects files that are not plain text by their first bytes.

// Number of leading bytes that are compared.
inline constexpr std::size_t text_format_bytes = 512;

// Returns the length in bytes of the text's UTF-8 byte order mark (EF BB BF): 3 or 0. Throws
// DataError, prefixed with `place`, for a compressed file, an archive, a document or an array of
// another format. Also throws it for the byte order marks of UTF-16 and UTF-32.
std::size_t byte_order_mark(std::string_view beginning, std::string_view place);

}  // namespace longspan
