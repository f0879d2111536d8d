// The bytes of a file that may be packed by gzip or zstd.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/input_file.h"

namespace longspan {

enum class Compression : std::uint8_t { none, gzip, zstd };

// By the bytes that the file begins with, whatever it is called. Throws DataError where it is
// called NAME.gz or NAME.zst, is no copy, and is not packed so.
Compression detect_compression(const InputFile& file);

// bytes: binary data such as token ids, which may begin as any format does.
enum class UnpackedContent : std::uint8_t { text, bytes };

// Reads a file from its beginning to its end. Of a packed one members of gzip, or frames of zstd,
// are read one after another as one, a text without a byte order mark. It takes as much memory as a
// block and the window of the packing, 128 MiB at most, whatever the file unpacks to.
class DecompressedFile {
 public:
  // `block`: bytes of a packed file that are read at once. Throws DataError as `read` does, and as
  // byte_order_mark does where what is packed must be text and is none.
  explicit DecompressedFile(std::shared_ptr<const InputFile> file,
                            std::size_t block = std::size_t{1} << 20,
                            UnpackedContent content = UnpackedContent::text);
  DecompressedFile(const DecompressedFile&) = delete;
  DecompressedFile& operator=(const DecompressedFile&) = delete;
  ~DecompressedFile();

  const InputFile& file() const { return *file_; }
  const std::string& path() const { return file_->path(); }
  bool is_compressed() const { return unpacker_ != nullptr; }
  // Unpacked bytes from where the last call ended; as many as there is room for, or as are left.
  // Throws DataError, naming the file and the byte, where it is damaged, ends too early, or goes on
  // with something else.
  std::size_t read(std::span<char> out);
  // Bytes of the file itself that have been read.
  std::int64_t at() const { return at_; }

  // Passes over that many unpacked bytes; at once where the file is not packed.
  void skip(std::int64_t bytes);

  class Unpacker;

 private:
  void refill();
  std::size_t read_packed(std::span<char> out);
  [[noreturn]] void throw_data_error(const std::string& problem) const;

  std::shared_ptr<const InputFile> file_;
  std::size_t block_;
  std::int64_t at_ = 0;
  std::unique_ptr<Unpacker> unpacker_;  // none: the file is not packed
  std::string buffer_;
  std::string_view input_;  // of buffer_, what is still packed
  std::string beginning_;   // unpacked already
};

}  // namespace longspan
