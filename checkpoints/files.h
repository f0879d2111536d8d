// Checked POSIX calls for files and directories: syncing, hashing, and reading without following
// links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longspan {

// XXH3-128: the hash of pieces, files and manifests.

struct Hash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  // Returns 32 lowercase hexadecimal digits.
  std::string to_string() const;
  // Parses the output of `to_string`. Throws DataError, prefixed with `place`, for other text.
  static Hash from_string(std::string_view text, const std::string& place);

  friend bool operator==(const Hash&, const Hash&) = default;
};

// Incremental hash.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  void add(const void* bytes, std::size_t size);
  Hash result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Hash hash_of(std::string_view bytes);

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

// Opens a regular file for reading. Throws DataError for anything else, such as a symbolic link or
// a missing file.
Descriptor open_regular(const std::filesystem::path& path);
// Returns the file size in bytes. Throws DataError.
std::int64_t size_of_file(const Descriptor& file, const std::filesystem::path& path);
// Called periodically during long reads, with the bytes read since the last call. An exception
// thrown by it aborts the read.
using ReadProgress = std::function<void(std::int64_t bytes)>;
// Hashes the file. Throws DataError.
FileHash hash_file(const Descriptor& file,
                   const std::filesystem::path& path,
                   const ReadProgress& watch = {});
// Returns the content of a regular file of at most `most` bytes. `judge` checks each block before
// the next one is read, so that rejected files take little memory. Throws DataError.
std::string read_text_file(const std::filesystem::path& path,
                           std::int64_t most,
                           const std::function<void(std::string_view block)>& judge);

// Returns the entries of a directory; empty if it does not exist. Throws DataError for an
// unreadable one, and std::bad_alloc. The iterators of std::filesystem would abort the process when
// out of memory.
std::vector<std::string> list_directory(const std::filesystem::path& directory);
// Removes a file, a directory recursively, or a symbolic link itself. Returns false where something
// remains.
bool remove_tree(const std::filesystem::path& path) noexcept;

// Returns the free bytes of a directory's file system; 0 if unknown.
std::uint64_t free_bytes(const std::filesystem::path& directory) noexcept;

// Writes a new file and syncs it. Throws Failure.
void write_text_file(const std::filesystem::path& path, std::string_view text);
// Sync a file or directory to disk. Throw Failure.
void sync_file(const std::filesystem::path& path);
void sync_directory(const std::filesystem::path& path);
// Syncs the directory entries that lead to a directory, up to its mount point. Unreadable ancestors
// are skipped, because other users own them. Throws Failure.
void sync_path_to(const std::filesystem::path& directory);

// Replaces `to`, which may be a nonempty directory, by `from`. The old content becomes `from`, or
// `aside` where the file system cannot exchange names. Throws Failure.
void atomic_replace(const std::filesystem::path& from,
                    const std::filesystem::path& to,
                    const std::filesystem::path& aside);

// A file that its owner locks for its lifetime. The system unlocks it when the process is killed.
class LockFile {
 public:
  LockFile() = default;
  // Creates the file and locks it. Returns an unheld lock when a cleanup of another run removed the
  // new file as a leftover; retry with another name. Throws Failure.
  static LockFile create(const std::filesystem::path& path);
  // Takes the lock of a dead owner, to clean up without a race; an unheld lock if the file is
  // missing. Returns nothing when a live process on any node holds it, or when that is unknown.
  static std::optional<LockFile> acquire_abandoned(const std::filesystem::path& path);
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
