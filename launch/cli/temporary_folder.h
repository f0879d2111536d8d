// Temporary folder of a process.
#pragma once

#include <filesystem>

namespace longspan {

// Created under TMPDIR, or /tmp, and removed on destruction.
class TemporaryFolder {
 public:
  // Throws Failure if it cannot be created.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace longspan
