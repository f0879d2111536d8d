#include "framework/tracking/append_file.h"

#include <unistd.h>

#include "framework/core/error.h"
#include "framework/core/system.h"

namespace longspan {

void fail_with_errno(const std::filesystem::path& path, const char* what) {
  throw Failure("{}: {}: {}", path.string(), what, errno_message());
}

void write_all(int file, const std::filesystem::path& path, std::string_view bytes) {
  const ssize_t count =
      retry_interrupted([&] { return ::write(file, bytes.data(), bytes.size()); });
  if (count < 0) fail_with_errno(path, "cannot be written");
  // A partial line (full disk) would otherwise be mistaken for the remains of a killed run.
  if (static_cast<std::size_t>(count) != bytes.size())
    throw Failure("{}: wrote {} of {} bytes; check whether the disk is full",
                  path.string(),
                  count,
                  bytes.size());
}

void fsync_file(int file, const std::filesystem::path& path) {
  if (::fdatasync(file) != 0) fail_with_errno(path, "fsync failed");
}

}  // namespace longspan
