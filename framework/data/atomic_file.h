// Atomically written files: a file appears at its path only when it is complete.
#pragma once

#include <cstdio>
#include <filesystem>
#include <span>

namespace longspan {

// Writes a temporary file next to its path. `finish` syncs it and renames it; the destructor
// deletes an unfinished one. The constructor removes leftovers of killed writers of the same file.
// Every function throws Failure when the file cannot be written.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Appends bytes.
  void write(std::span<const char> bytes);
  // Overwrites the beginning of the file. Call it after all other writes.
  void write_begin(std::span<const char> bytes);
  void finish();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_path_;
  std::FILE* file_ = nullptr;
};

}  // namespace longspan
