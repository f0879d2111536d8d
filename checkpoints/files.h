// Files and directories by POSIX calls, each checked: made durable, hashed, and read without
// following links.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoints/hash.h"

namespace longspan {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor();

  int get() const { return descriptor_; }
  bool defined() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

struct FileHash {
  std::int64_t bytes = 0;
  Hash hash;
};

// Opens a regular file for reading. Throws DataError when it is anything else, such as a symbolic
// link, or not there.
Descriptor open_regular(const std::filesystem::path& path);
// Throws DataError.
std::int64_t size_of_file(const Descriptor& file, const std::filesystem::path& path);
// Told now and then while long files are read, with the bytes that were read since the last time.
// What it throws ends the reading.
using ReadProgress = std::function<void(std::int64_t bytes)>;
// Reads all of it. Throws DataError.
FileHash hash_file(const Descriptor& file,
                   const std::filesystem::path& path,
                   const ReadProgress& watch = {});
// All of a regular file of at most `most` bytes. `judge` sees each block before the next one is
// read: what it refuses by throwing takes no more memory than what it saw. Throws DataError.
std::string read_text_file(const std::filesystem::path& path,
                           std::int64_t most,
                           const std::function<void(std::string_view block)>& judge);

// What is in a directory; nothing when there is none. Throws DataError when it cannot be read, and
// std::bad_alloc: std::filesystem's iterators end the process without memory.
std::vector<std::string> list_directory(const std::filesystem::path& directory);
// Removes a file or a directory with all that is in it, and of a link only the link. False where
// something is left.
bool remove_tree(const std::filesystem::path& path) noexcept;

// Bytes that may still be written to the file system of that directory; 0 when it does not say.
std::uint64_t free_bytes(const std::filesystem::path& directory) noexcept;

// Writes a new file and makes it durable. Throws Failure.
void write_text_file(const std::filesystem::path& path, std::string_view text);
// Returns when what was written to a file or directory is on the disk. Throw Failure.
void sync_file(const std::filesystem::path& path);
void sync_directory(const std::filesystem::path& path);
// The same of the names that lead to a directory: its own in the one above it, and so on, up to
// where it is mounted. What is above those that may be read is someone else's. Throws Failure.
void sync_path_to(const std::filesystem::path& directory);

// Puts `from` in the place of `to`, which may be a directory with content; what was there is then
// called `from`, or `aside` where the file system cannot exchange names. Throws Failure.
void atomic_replace(const std::filesystem::path& from,
                    const std::filesystem::path& to,
                    const std::filesystem::path& aside);

// A file that is locked as long as its owner lives: the system unlocks it when a process is killed.
class LockFile {
 public:
  LockFile() = default;
  // Makes the file and locks it. Not held when another run that clears up took the new file for a
  // left-over and removed it: try again with another name. Throws Failure.
  static LockFile create(const std::filesystem::path& path);
  // The lock of an owner that lives no more, so that nobody else takes it while what it guarded is
  // removed; not held where there is no such file. Nothing when a living process, here or on
  // another node, holds it, or when that cannot be known.
  static std::optional<LockFile> take_abandoned(const std::filesystem::path& path);
  LockFile(LockFile&&) noexcept = default;
  LockFile& operator=(LockFile&&) noexcept = default;

  bool held() const { return descriptor_.defined(); }
  // Removes the file and unlocks it.
  void remove() noexcept;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

}  // namespace longspan
