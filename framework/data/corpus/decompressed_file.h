// Bytes of a file that may be compressed by gzip or zstd.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/input_file.h"

namespace longspan {

enum class Compression : std::uint8_t { none, gzip, zstd };

// Detects the compression by the first bytes of the file. Throws DataError for a file NAME.gz or
// NAME.zst, not opened as a copy, that does not have that format.
Compression detect_compression(const InputFile& file);

// bytes: binary data such as token ids, for which byte order marks are not checked.
enum class UnpackedContent : std::uint8_t { text, bytes };

// Reads a file sequentially. Concatenated gzip members or zstd frames are read as one stream. A
// byte order mark of compressed text is dropped. Memory use is one block plus the decompression
// window, at most 128 MiB, for any file size.
class DecompressedFile {
 public:
  // `block`: compressed bytes read at once. Throws DataError as `read` does, and as byte_order_mark
  // does for compressed content that must be text.
  explicit DecompressedFile(std::shared_ptr<const InputFile> file,
                            std::size_t block = std::size_t{1} << 20,
                            UnpackedContent content = UnpackedContent::text);
  DecompressedFile(const DecompressedFile&) = delete;
  DecompressedFile& operator=(const DecompressedFile&) = delete;
  ~DecompressedFile();

  const InputFile& file() const { return *file_; }
  const std::string& path() const { return file_->path(); }
  bool is_compressed() const { return unpacker_ != nullptr; }
  // Reads decompressed bytes into `out` and returns their number: the size of `out`, or what
  // remains. Throws DataError, with the file and the byte, for corrupt or truncated data and for
  // trailing garbage.
  std::size_t read(std::span<char> out);
  // Bytes read of the file itself, before decompression.
  std::int64_t at() const { return at_; }

  // Skips decompressed bytes. Constant time for an uncompressed file.
  void skip(std::int64_t bytes);

  class Unpacker;

 private:
  void refill();
  std::size_t read_packed(std::span<char> out);
  [[noreturn]] void throw_data_error(const std::string& problem) const;

  std::shared_ptr<const InputFile> file_;
  std::size_t block_;
  std::int64_t at_ = 0;
  std::unique_ptr<Unpacker> unpacker_;  // null: the file is not compressed
  std::string buffer_;
  std::string_view input_;  // the compressed rest of buffer_
  std::string beginning_;   // decompressed, not yet read
};

}  // namespace longspan
