// A directory that appears at its path only when it is complete.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoints/files.h"

namespace longspan {

class AtomicDirectory {
 public:
  // Creates a temporary directory next to `path`, which must be missing or an empty directory.
  // Removes leftovers of killed writers of an equal path. `asked_by`: prefix of messages. Throws
  // ConfigurationError where `path` exists, and Failure where the directory cannot be created.
  AtomicDirectory(const std::filesystem::path& path, const std::string& asked_by);
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;
  // Deletes the directory recursively unless `finish` was called.
  ~AtomicDirectory();

  // Path to write into, until `finish`.
  const std::filesystem::path& inside() const { return temporary_path_; }
  // Renames the directory to `path`. Its content must be synced. Throws Failure.
  void finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_path_;
  LockFile lock_;  // PATH.lock-ID, held while PATH.tmp-ID is written
  bool finished_ = false;
};

}  // namespace longspan
