// A file that is seen at its path once it is whole.
#pragma once

#include <cstdio>
#include <filesystem>
#include <span>

namespace longspan {

// Written beside its path, made durable and renamed by `finish`; without that it goes. What those
// left who were killed while they wrote the same one is removed. Each throws Failure when the file
// cannot be written.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // At the end.
  void write(std::span<const char> bytes);
  // Over what the file begins with, when all else is written.
  void write_begin(std::span<const char> bytes);
  void finish();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::filesystem::path beside_;
  std::FILE* file_ = nullptr;
};

}  // namespace longspan
