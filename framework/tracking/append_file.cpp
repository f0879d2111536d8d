#include "framework/tracking/append_file.h"

#include <unistd.h>

#include <cerrno>

#include "framework/core/error.h"
#include "framework/core/system_message.h"

namespace longspan {

void fail_with_errno(const std::filesystem::path& path, const char* what) {
  throw Failure("{}: {}: {}", path.string(), what, errno_message());
}

void write_all(int file, const std::filesystem::path& path, std::string_view bytes) {
  ssize_t count = 0;
  do {
    count = ::write(file, bytes.data(), bytes.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail_with_errno(path, "cannot be written");
  // What is cut short (the disk is full) would be taken for what a killed run left.
  if (static_cast<std::size_t>(count) != bytes.size())
    throw Failure(
        "{}: {} of {} bytes written; is the disk full?", path.string(), count, bytes.size());
}

void fsync_file(int file, const std::filesystem::path& path) {
  if (::fdatasync(file) != 0) fail_with_errno(path, "cannot be brought to the disk");
}

}  // namespace longspan
