#include "framework/data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

namespace {

struct stat status_of(int descriptor, const NamedPath& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    throw DataError("{}: cannot be examined: {}", path.told(), std::strerror(errno));
  return status;
}

// Of a file that can be read. Throws DataError.
std::int64_t size_of(int descriptor, const NamedPath& path) {
  const struct stat status = status_of(descriptor, path);
  if (!S_ISREG(status.st_mode))
    throw DataError("{}: is not a regular file; a text file is needed", path.told());
  if (status.st_size == 0) throw DataError("{}: is empty; a text file is needed", path.told());
  return status.st_size;
}

}  // namespace

InputFile::InputFile(NamedPath path) : path_(std::move(path)) {
  // Without O_NONBLOCK a named pipe would wait for a writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0)
    throw DataError("{}: cannot be opened for reading: {}{}",
                    path_.told(),
                    std::strerror(errno),
                    path_.help_to_find());
  try {
    size_ = size_of(descriptor_, path_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::copy(std::int64_t offset, std::span<char> out) const {
  const auto length = static_cast<std::int64_t>(out.size());
  require(offset >= 0 && offset + length <= size_,
          "{}: bytes {} to {} were asked for of {}",
          path_,
          offset,
          offset + length,
          size_);
  while (!out.empty()) {
    const ssize_t copied = ::pread(descriptor_, out.data(), out.size(), offset);
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0)
      throw DataError("{}: byte {} cannot be read: {}", path_, offset, std::strerror(errno));
    if (copied == 0)
      throw DataError("{}: has become shorter while it was read: {} bytes when opened, {} now",
                      path_,
                      size_,
                      status_of(descriptor_, path_).st_size);
    offset += copied;
    out = out.subspan(static_cast<std::size_t>(copied));
  }
}

}  // namespace longspan
