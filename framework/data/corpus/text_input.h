// Files of text, however they are stored.
#pragma once

#include <memory>

#include "framework/core/input_file.h"

namespace longspan {

// The text of a file without a byte order mark. A file compressed by gzip or zstd remains so:
// DecompressedFile reads it. Throws DataError as InputFile does, and as byte_order_mark does for
// what is no text.
std::shared_ptr<const InputFile> open_text(const ConfigPath& path);

// The same, decompressed into a temporary file where it is compressed, so that it can be read at
// any place. Throws DataError as DecompressedFile does too.
std::shared_ptr<const InputFile> open_plain_text(const ConfigPath& path);
std::shared_ptr<const InputFile> plain_text_of(InputFile file);

// The bytes of a file that may be compressed by gzip or zstd; they need not be text.
std::shared_ptr<const InputFile> open_decompressed(const ConfigPath& path);

}  // namespace longspan
