#include "framework/core/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/system.h"

namespace longspan {

namespace {

// Returns -1 on failure, with errno set. A list of files keeps each of them open. So the file limit
// is raised, if the system allows it, to leave half of it to other parts of the program.
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

constexpr const char* of_one_process =
    "; write it to a file: with several ranks only one process can read a pipe";

// Returns the descriptor of a path such as /dev/stdin or /dev/fd/3; -1 for another path.
int own_descriptor(const std::string& path) {
  if (path == "/dev/stdin") return STDIN_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int descriptor = -1;
    const auto [end, error] =
        std::from_chars(path.data() + folder.size(), path.data() + path.size(), descriptor);
    if (error == std::errc() && end == path.data() + path.size()) return descriptor;
  }
  return -1;
}

struct stat status_of(int descriptor, const ConfigPath& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    throw DataError("{}: stat failed: {}", path.describe(), errno_message());
  return status;
}

// Opens a path. Throws DataError.
int opened(const ConfigPath& path) {
  int descriptor = open_for_reading(path.c_str());
  // A socket cannot be opened by its path.
  if (descriptor < 0 && errno == ENXIO && own_descriptor(path) >= 0)
    descriptor = ::fcntl(own_descriptor(path), F_DUPFD_CLOEXEC, 0);
  if (descriptor >= 0) return descriptor;
  const int reason = errno;
  const bool is_of_another = reason == ENOENT && own_descriptor(path) >= 0;
  throw DataError("{}: cannot be opened for reading: {}{}",
                  path.describe(),
                  errno_message(reason),
                  is_of_another      ? of_one_process
                  : reason == ENOENT ? path.not_found_hint()
                                     : "");
}

// Waits for the first bytes, or the end, of a stream.
void wait_for_bytes(int descriptor, int patience, const ConfigPath& path) {
  pollfd waited = {.fd = descriptor, .events = POLLIN, .revents = 0};
  const struct stat status = status_of(descriptor, path);
  // A terminal has a user, and an unnamed pipe has a writer from the start.
  const bool has_name = S_ISFIFO(status.st_mode) && own_descriptor(path) < 0;
  if (has_name && ::poll(&waited, 1, patience) == 0)
    throw DataError("{}: named pipe without a writer; start its writer first", path.describe());
}

// Returns the descriptor of a temporary file with the output of `read`; see the constructor.
int copied(const ConfigPath& path, const std::function<std::size_t(std::span<char>)>& read) {
  const std::string folder = temporary_folder();
  const int file = open_unnamed_file(folder);
  const auto require_written = [&](bool is_written) {
    if (is_written) return;
    throw Failure(
        "{}: a temporary file for {} cannot be written: {}; set TMPDIR to a directory with free "
        "space",
        folder,
        path.text(),
        errno_message());
  };
  require_written(file >= 0);
  try {
    std::string block(std::size_t{1} << 20, '\0');
    while (const std::size_t count = read(block)) {
      std::string_view left(block.data(), count);
      while (!left.empty()) {
        const ssize_t written =
            retry_interrupted([&] { return ::write(file, left.data(), left.size()); });
        require_written(written > 0);
        left.remove_prefix(static_cast<std::size_t>(written));
      }
    }
  } catch (...) {
    ::close(file);
    throw;
  }
  return file;
}

// Copies a stream, which can be read only once: later opens receive the same copy.
int copied_stream(int descriptor, int patience, const ConfigPath& path) {
  static std::mutex mutex;
  static std::map<std::pair<dev_t, ino_t>, int> copies;
  const std::lock_guard lock(mutex);
  const struct stat status = status_of(descriptor, path);
  const auto [copy, is_new] = copies.try_emplace({status.st_dev, status.st_ino}, -1);
  if (is_new) {
    try {
      wait_for_bytes(descriptor, patience, path);
      // Clears O_NONBLOCK so that reads block.
      ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
      copy->second = copied(path, [&](std::span<char> out) {
        const ssize_t count =
            retry_interrupted([&] { return ::read(descriptor, out.data(), out.size()); });
        if (count < 0) throw DataError("{}: cannot be read: {}", path.describe(), errno_message());
        return static_cast<std::size_t>(count);
      });
    } catch (...) {
      copies.erase(copy);
      throw;
    }
  }
  return ::fcntl(copy->second, F_DUPFD_CLOEXEC, 0);
}

// Checks that the file can be read. Throws DataError.
std::int64_t size_of(int descriptor, const ConfigPath& path) {
  const struct stat status = status_of(descriptor, path);
  if (!S_ISREG(status.st_mode))
    throw DataError("{}: expected a regular file{}",
                    path.describe(),
                    S_ISDIR(status.st_mode)
                        ? fmt::format(", found a directory; write {}/* for its files", path.text())
                    : own_descriptor(path) >= 0 ? of_one_process
                                                : "");
  if (status.st_size == 0) throw DataError("{}: is empty", path.describe());
  return status.st_size;
}

bool is_stream(int descriptor, const ConfigPath& path) {
  const mode_t mode = status_of(descriptor, path).st_mode;
  return S_ISFIFO(mode) || S_ISSOCK(mode) || (S_ISCHR(mode) && ::isatty(descriptor) == 1);
}

}  // namespace

InputFile::InputFile(ConfigPath path, int patience) : path_(std::move(path)) {
  descriptor_ = opened(path_);
  try {
    if (is_stream(descriptor_, path_)) {
      const int copy = copied_stream(descriptor_, patience, path_);
      ::close(std::exchange(descriptor_, copy));
    }
    size_ = size_of(descriptor_, path_);
    ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::InputFile(ConfigPath path, const std::function<std::size_t(std::span<char>)>& read)
    : path_(std::move(path)), descriptor_(copied(path_, read)), is_copy_(true) {
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
      size_(std::exchange(other.size_, 0)),
      dropped_(std::exchange(other.dropped_, 0)),
      is_copy_(other.is_copy_) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::drop_first(std::int64_t bytes) {
  require(bytes <= size_, "{}: cannot drop {} of {} bytes", path_, bytes, size_);
  if (bytes == size_) throw DataError("{}: is empty", path_.describe());
  dropped_ += bytes;
  size_ -= bytes;
}

void InputFile::copy(std::int64_t offset, std::span<char> out) const {
  const auto length = static_cast<std::int64_t>(out.size());
  require(offset >= 0 && offset + length <= size_,
          "{}: bytes {} to {} are out of range ({} bytes)",
          path_,
          offset,
          offset + length,
          size_);
  while (!out.empty()) {
    const ssize_t copied = retry_interrupted(
        [&] { return ::pread(descriptor_, out.data(), out.size(), dropped_ + offset); });
    if (copied < 0)
      throw DataError("{}: byte {} cannot be read: {}", path_, offset, errno_message());
    if (copied == 0)
      throw DataError("{}: truncated while reading ({} bytes when opened, {} now)",
                      path_,
                      dropped_ + size_,
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
    throw DataError("{}: expected at most {} bytes, found {}", path_.describe(), most, size_);
  std::string text(static_cast<std::size_t>(size_), '\0');
  copy(0, std::span(text));
  return text;
}

bool path_exists(const std::filesystem::path& path) {
  std::error_code unused;
  return std::filesystem::exists(path, unused);
}

}  // namespace longspan
