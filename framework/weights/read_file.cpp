#include "framework/weights/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/core/error.h"

namespace longspan {

ReadFile::ReadFile(std::filesystem::path path)
    // Without O_NONBLOCK a named pipe would wait for a writer.
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!descriptor_.defined())
    throw DataError("{}: cannot be opened for reading: {}", path_.string(), std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0)
    throw DataError("{}: cannot be examined: {}", path_.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw DataError("{}: is not a regular file", path_.string());
  size_ = status.st_size;
}

void ReadFile::read(std::int64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::pread(descriptor_.get(),
                                  out.data() + done,
                                  out.size() - done,
                                  offset + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw DataError("{}: byte {} cannot be read: {}",
                      path_.string(),
                      offset + static_cast<std::int64_t>(done),
                      std::strerror(errno));
    if (count == 0)
      throw DataError("{}: ends before byte {}; it had {} bytes when it was opened",
                      path_.string(),
                      offset + static_cast<std::int64_t>(out.size()),
                      size_);
    done += static_cast<std::size_t>(count);
  }
}

std::string ReadFile::text(std::int64_t most) const {
  if (size_ > most)
    throw DataError("{}: found {} bytes; wanted at most {}", path_.string(), size_, most);
  std::string text(static_cast<std::size_t>(size_), '\0');
  read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace longspan
