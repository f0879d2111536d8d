// Text files, plain or compressed.
#pragma once

#include <memory>

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

}  // namespace longspan
