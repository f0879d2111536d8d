// A folder that is seen at its path once it is whole.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoints/files.h"

namespace longspan {

class AtomicDirectory {
 public:
  // Makes a folder beside `path`, which must not be there or be an empty folder; what those left
  // who were killed while they made the same one is removed. `asked_by` begins the message. Throws
  // ConfigurationError where something is there, Failure where it cannot be made.
  AtomicDirectory(const std::filesystem::path& path, const std::string& asked_by);
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;
  // Without `finish` it goes, with all that is in it.
  ~AtomicDirectory();

  // Where to write, until `finish`.
  const std::filesystem::path& inside() const { return beside_; }
  // Gives it its name. What is in it must be on the disk. Throws Failure.
  void finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path beside_;
  LockFile lock_;  // PATH.lock-ID, held as long as PATH.tmp-ID is written
  bool finished_ = false;
};

}  // namespace longspan
