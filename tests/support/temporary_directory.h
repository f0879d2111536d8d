// A temporary directory.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "framework/core/error.h"

namespace longspan::testing {

// Removes the directory and its contents at the end. Throws Failure if it cannot be created.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "longspan-XXXXXX").string();
    if (!mkdtemp(name.data())) throw Failure("{}: cannot make a temporary directory", name);
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace longspan::testing
