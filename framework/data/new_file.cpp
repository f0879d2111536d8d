#include "framework/data/new_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

NewFile::NewFile(std::filesystem::path path)
    : path_(std::move(path)),
      // Others may be making the same one, on other machines too.
      beside_(path_.string() + fmt::format(".tmp-{:08x}-{}", std::random_device()(), ::getpid())),
      file_(std::fopen(beside_.c_str(), "wbxe")) {
  if (file_ == nullptr) fail();
}

NewFile::~NewFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (beside_.empty()) return;
  std::error_code unused;
  std::filesystem::remove(beside_, unused);
}

void NewFile::write(std::span<const char> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail();
}

void NewFile::write_begin(std::span<const char> bytes) {
  if (std::fseek(file_, 0, SEEK_SET) != 0) fail();
  write(bytes);
}

void NewFile::finish() {
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail();
  if (std::rename(beside_.c_str(), path_.c_str()) != 0) fail();
  beside_.clear();
}

void NewFile::fail() const {
  throw Failure("{}: cannot be written: {}", path_.string(), std::strerror(errno));
}

}  // namespace longspan
