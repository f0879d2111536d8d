// A temporary file that its destructor removes.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/support/message_of.h"  // for its users

namespace longspan {

class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view content) {
    std::string name = (std::filesystem::temp_directory_path() / "longspan-data-XXXXXX").string();
    const int descriptor = ::mkstemp(name.data());
    if (descriptor >= 0) ::close(descriptor);
    path_ = name;
    write(content);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }

  void write(std::string_view content) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  void resize(std::uintmax_t size) const { std::filesystem::resize_file(path_, size); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace longspan
