#include "framework/data/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/system.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view temporary = ".tmp-";

// Matches the suffix of our temporary files, "0a1b2c3d-4711".
bool is_id(std::string_view text) {
  const std::size_t dash = text.find('-');
  return dash == 8 && text.size() > 9 && text.find_first_not_of("0123456789abcdef") == dash &&
         text.find_first_not_of("0123456789", dash + 1) == std::string_view::npos;
}

// Removes a leftover under its lock, which a live writer holds. A writer that has created the file
// but not yet locked it then detects the removal. Without lock support the file remains.
void remove_unlocked(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  std::error_code unused;
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) fs::remove(path, unused);
  ::close(file);
}

// Returns false when another process removed the file before it was locked.
bool lock(std::FILE* file) {
  retry_interrupted([&] { return ::flock(::fileno(file), LOCK_EX); });
  struct stat status {};
  return ::fstat(::fileno(file), &status) != 0 || status.st_nlink > 0;
}

void remove_abandoned(const fs::path& path) {
  const std::string begin = path.filename().string() + std::string(temporary);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(begin) && is_id(std::string_view(name).substr(begin.size())))
      left.push_back(entry->path());
  }
  for (const fs::path& each : left) remove_unlocked(each);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  do {
    if (file_ != nullptr) std::fclose(file_);
    // Other processes, on other nodes too, may write an equal path.
    temporary_path_ =
        path_.string() + fmt::format("{}{:08x}-{}", temporary, std::random_device()(), ::getpid());
    file_ = std::fopen(temporary_path_.c_str(), "wbxe");
    if (file_ == nullptr) fail();
  } while (!lock(file_));
  remove_abandoned(path_);
}

AtomicFile::~AtomicFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (temporary_path_.empty()) return;
  std::error_code unused;
  std::filesystem::remove(temporary_path_, unused);
}

void AtomicFile::write(std::span<const char> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail();
}

void AtomicFile::write_begin(std::span<const char> bytes) {
  if (std::fseek(file_, 0, SEEK_SET) != 0) fail();
  write(bytes);
}

void AtomicFile::finish() {
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail();
  // The rename happens under the lock, so that no other process removes the file as a leftover.
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail();
  temporary_path_.clear();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail();
}

void AtomicFile::fail() const {
  throw Failure("{}: cannot be written: {}", path_.string(), errno_message());
}

}  // namespace longspan
