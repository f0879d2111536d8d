#include "framework/core/input_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/system_message.h"

namespace longspan {

namespace {

// -1 where it cannot be opened, as errno says. A list of texts holds each of its files open, and
// other parts of the program open some more: half of what a process may have is left to them, as
// long as the system lets it have more.
int open_for_reading(const char* path) {
  // Without O_NONBLOCK a named pipe would wait for a writer.
  const auto open = [path] { return ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); };
  const int descriptor = open();
  if (descriptor < 0 && errno != EMFILE) return -1;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max ||
      (descriptor >= 0 && static_cast<rlim_t>(descriptor) < limit.rlim_cur / 2))
    return descriptor;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return descriptor < 0 ? open() : descriptor;
}

struct stat status_of(int descriptor, const NamedPath& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    throw DataError("{}: cannot be examined: {}", path.told(), system_message());
  return status;
}

// Of a file that can be read. Throws DataError.
std::int64_t size_of(int descriptor, const NamedPath& path) {
  const struct stat status = status_of(descriptor, path);
  if (!S_ISREG(status.st_mode)) throw DataError("{}: is not a regular file", path.told());
  if (status.st_size == 0) throw DataError("{}: is empty", path.told());
  return status.st_size;
}

}  // namespace

InputFile::InputFile(NamedPath path) : path_(std::move(path)) {
  descriptor_ = open_for_reading(path_.c_str());
  if (descriptor_ < 0) {
    const int reason = errno;
    throw DataError("{}: cannot be opened for reading: {}{}",
                    path_.told(),
                    system_message(reason),
                    reason == ENOENT ? path_.help_to_find() : "");
  }
  try {
    size_ = size_of(descriptor_, path_);
    // A read waits for its bytes.
    ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
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
      throw DataError("{}: byte {} cannot be read: {}", path_, offset, system_message());
    if (copied == 0)
      throw DataError("{}: has become shorter while it was read: {} bytes when opened, {} now",
                      path_,
                      size_,
                      status_of(descriptor_, path_).st_size);
    offset += copied;
    out = out.subspan(static_cast<std::size_t>(copied));
  }
}

void InputFile::copy(std::int64_t offset, std::span<std::byte> out) const {
  copy(offset, std::span(reinterpret_cast<char*>(out.data()), out.size()));
}

std::string InputFile::text(std::int64_t most) const {
  if (size_ > most)
    throw DataError("{}: found {} bytes; wanted at most {}", path_.told(), size_, most);
  std::string text(static_cast<std::size_t>(size_), '\0');
  copy(0, std::span(text));
  return text;
}

}  // namespace longspan
