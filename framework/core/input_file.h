// A file that is read at any place, however large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "framework/core/named_path.h"

namespace longspan {

// Owns the open file. Nothing of it is held in memory, so it may be many times larger than that.
// Reading is thread-safe. Symbolic links are followed.
class InputFile {
 public:
  // Throws DataError when the file is missing, unreadable, not a regular file or empty.
  explicit InputFile(NamedPath path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  // Bytes when the file was opened.
  std::int64_t size() const { return size_; }

  // Fills `out` with the bytes from `offset` on. Throws DataError when the file has become shorter
  // since it was opened, or when the disk cannot be read.
  void copy(std::int64_t offset, std::span<char> out) const;
  void copy(std::int64_t offset, std::span<std::byte> out) const;
  // All of it. Throws DataError where it has more than `most` bytes.
  std::string text(std::int64_t most) const;

 private:
  NamedPath path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace longspan
