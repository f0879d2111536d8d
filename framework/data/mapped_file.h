// A file mapped into memory for reading, however large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "framework/core/named_path.h"

namespace longspan {

// Owns the mapping. Only pages that are read take memory, and `release` gives them back, so a file
// may be many times larger than the machine's memory. Reading is thread-safe.
class MappedFile {
 public:
  // Throws DataError when the file is missing, unreadable, not a regular file or empty.
  explicit MappedFile(NamedPath path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  // Bytes when the file was opened.
  std::int64_t size() const { return size_; }

  // Fills `out` with the bytes from `offset` on. Throws DataError when the file has become shorter
  // since it was opened, or when the disk cannot be read: a copy through the kernel, so that
  // neither ends in a signal.
  void copy(std::int64_t offset, std::span<char> out) const;

  // Says that bytes [begin, end) are not needed soon: the process stops holding their pages.
  void release(std::int64_t begin, std::int64_t end) const;

 private:
  NamedPath path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  const char* data_ = nullptr;
};

}  // namespace longspan
