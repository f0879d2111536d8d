// A file that others made, read piece by piece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "checkpoints/files.h"

namespace longspan {

// Symbolic links are followed: caches of models are full of them.
class ReadFile {
 public:
  // Throws DataError where it is not there, not readable or no regular file.
  explicit ReadFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  // Bytes when it was opened.
  std::int64_t size() const { return size_; }
  // Fills `out` with the bytes from `offset` on. Throws DataError where they cannot be read, as
  // when the file was cut meanwhile.
  void read(std::int64_t offset, std::span<std::byte> out) const;
  // All of it. Throws DataError where it is longer than `most` bytes.
  std::string text(std::int64_t most) const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::int64_t size_ = 0;
};

}  // namespace longspan
