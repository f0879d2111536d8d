// A folder for files of one process.
#pragma once

#include <filesystem>

namespace longspan {

// Under TMPDIR, or /tmp; it is removed with its owner.
class TemporaryFolder {
 public:
  // Throws Failure where it cannot be made.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace longspan
