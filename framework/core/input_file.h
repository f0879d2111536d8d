// Random access to a file of any size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "framework/core/config_path.h"

namespace longspan {

// Returns whether the path exists as a file or directory; false also on a system error.
bool path_exists(const std::filesystem::path& path);

// Owns the open file. Its contents are not cached, so it may exceed memory. Reading is thread-safe.
// Symbolic links are followed.
class InputFile {
 public:
  // A pipe, such as /dev/stdin or a shell's <(command), or a terminal is first copied to a
  // temporary file. It is copied once in a process, so that it can be reopened. Throws DataError
  // when the file is missing, unreadable, empty, or neither a pipe, a terminal nor a regular file.
  // Throws it too when nothing writes to a named pipe within `patience` milliseconds.
  explicit InputFile(ConfigPath path, int patience = 5000);
  // Copies the output of `read` into a temporary file (system.h). `read` fills the given
  // bytes and returns their number, 0 at the end; `path` appears in messages. Throws DataError for
  // no bytes, and Failure when they cannot be written.
  InputFile(ConfigPath path, const std::function<std::size_t(std::span<char>)>& read);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  // Returns whether the contents were produced elsewhere, under the path they were read from.
  bool is_copy() const { return is_copy_; }
  // Size in bytes when the file was opened.
  std::int64_t size() const { return size_; }

  // Drops the first `bytes` from the file. Throws DataError when none remain.
  void drop_first(std::int64_t bytes);

  // Fills `out` from byte `offset` on. Throws DataError when the file has shrunk since it was
  // opened, or on a read error.
  void copy(std::int64_t offset, std::span<char> out) const;
  void copy(std::int64_t offset, std::span<std::byte> out) const;
  // Returns the complete contents. Throws DataError for more than `most` bytes.
  std::string text(std::int64_t most) const;

 private:
  ConfigPath path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::int64_t dropped_ = 0;  // bytes dropped from the beginning
  bool is_copy_ = false;
};

}  // namespace longspan
