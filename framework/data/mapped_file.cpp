#include "framework/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

namespace {

// Closes on the way out of a constructor that throws.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  int give() { return std::exchange(number_, -1); }

 private:
  int number_;
};

std::int64_t size_now(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    throw DataError("{}: cannot be examined: {}", path, std::strerror(errno));
  return status.st_size;
}

// Bytes copied, which are fewer than asked for where the file ends; -1 on an error.
ssize_t copy_some(int descriptor, const char* from, std::int64_t offset, std::span<char> out) {
  // A plain copy from a mapping ends in SIGBUS when the file has been cut or the disk fails; the
  // kernel's copy of the same pages says so instead.
  const iovec local{out.data(), out.size()};
  const iovec remote{const_cast<char*>(from) + offset, out.size()};
  const ssize_t copied = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (copied > 0) return copied;
  // Past the new end, a disk error, or a sandbox without that call: reading tells them apart.
  return ::pread(descriptor, out.data(), out.size(), offset);
}

}  // namespace

MappedFile::MappedFile(NamedPath path) : path_(std::move(path)) {
  // Without O_NONBLOCK a named pipe would wait for a writer.
  Descriptor descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.number() < 0)
    throw DataError("{}: cannot be opened for reading: {}{}",
                    path_.told(),
                    std::strerror(errno),
                    path_.help_to_find());
  struct stat status {};
  if (::fstat(descriptor.number(), &status) != 0)
    throw DataError("{}: cannot be examined: {}", path_.told(), std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    throw DataError("{}: is not a regular file; a text file is needed", path_.told());
  if (status.st_size == 0) throw DataError("{}: is empty; a text file is needed", path_.told());
  size_ = status.st_size;
  void* address = ::mmap(
      nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, descriptor.number(), 0);
  if (address == MAP_FAILED)
    throw DataError("{}: cannot be mapped into memory: {}", path_.told(), std::strerror(errno));
  ::madvise(address, static_cast<std::size_t>(size_), MADV_SEQUENTIAL);
  data_ = static_cast<const char*>(address);
  descriptor_ = descriptor.give();
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), static_cast<std::size_t>(size_));
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MappedFile::copy(std::int64_t offset, std::span<char> out) const {
  const auto length = static_cast<std::int64_t>(out.size());
  require(offset >= 0 && offset + length <= size_,
          "{}: bytes {} to {} were asked for of {}",
          path_,
          offset,
          offset + length,
          size_);
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t copied =
        copy_some(descriptor_, data_, offset + static_cast<std::int64_t>(done), out.subspan(done));
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0)
      throw DataError("{}: byte {} cannot be read: {}",
                      path_,
                      offset + static_cast<std::int64_t>(done),
                      std::strerror(errno));
    if (copied == 0) break;
    done += static_cast<std::size_t>(copied);
  }
  // Asked after the copy: the rest of the last page of a file that was cut reads as zeros.
  const std::int64_t size = size_now(descriptor_, path_);
  if (done < out.size() || size < offset + length)
    throw DataError("{}: has become shorter while it was read: {} bytes when opened, {} now",
                    path_,
                    size_,
                    size);
}

void MappedFile::release(std::int64_t begin, std::int64_t end) const {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const std::int64_t first = (begin + page - 1) / page * page;
  const std::int64_t last = end / page * page;
  // Only advice: the pages are the file's, so nothing is lost when it is taken or when it is not.
  if (first < last)
    ::madvise(
        const_cast<char*>(data_) + first, static_cast<std::size_t>(last - first), MADV_DONTNEED);
}

}  // namespace longspan
