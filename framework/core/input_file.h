// A file that is read at any place, however large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "framework/core/config_path.h"

namespace longspan {

// Whether a file or folder has this path; false also where the system does not answer.
bool is_there(const std::filesystem::path& path);

// Owns the open file. Nothing of it is held in memory, so it may be many times larger than that.
// Reading is thread-safe. Symbolic links are followed.
class InputFile {
 public:
  // A pipe, as /dev/stdin or a shell's <(command), or a terminal is first copied to its end into a
  // temporary file: once in a process, so that it can be opened again. Throws DataError when the
  // file is missing, unreadable, empty, or neither that nor a regular file, and when nothing writes
  // to a named pipe within `patience` milliseconds.
  explicit InputFile(ConfigPath path, int patience = 5000);
  // Copies what `read` writes into the bytes that it is given and returns the number of, until that
  // is 0, into a temporary file (unnamed_file.h); `path` names it in messages. Throws DataError
  // when there are no bytes, and Failure when they cannot be written.
  InputFile(ConfigPath path, const std::function<std::size_t(std::span<char>)>& read);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  // Of what was read elsewhere, under the path that it was read from.
  bool is_copy() const { return is_copy_; }
  // Bytes when the file was opened.
  std::int64_t size() const { return size_; }

  // The first `bytes` are no part of the file any more. Throws DataError when there are no others.
  void drop_first(std::int64_t bytes);

  // Fills `out` with the bytes from `offset` on. Throws DataError when the file has become shorter
  // since it was opened, or when the disk cannot be read.
  void copy(std::int64_t offset, std::span<char> out) const;
  void copy(std::int64_t offset, std::span<std::byte> out) const;
  // All of it. Throws DataError where it has more than `most` bytes.
  std::string text(std::int64_t most) const;

 private:
  ConfigPath path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::int64_t dropped_ = 0;  // bytes before the first
  bool is_copy_ = false;
};

}  // namespace longspan
