// Interposed libc calls that open, read, write, sync, rename and remove files.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>
#include <vector>

#include "tests/support/faulty_files/watched.h"

namespace longspan::testing {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

// The log identifies files by inode, because names change.
std::string inode_of(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 ? text(static_cast<std::int64_t>(status.st_ino)) : "0";
}
std::string inode_at(int directory, const char* path) {
  struct stat status {};
  return fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) == 0
             ? text(static_cast<std::int64_t>(status.st_ino))
             : "0";
}

int open_file(const char* name, int directory, const char* path, int flags, mode_t mode) {
  static const auto real = next<int(int, const char*, int, ...)>("openat");
  Call call(name, directory, path);
  if (call.fails()) return -1;
  const bool is_new = call.logged() && (flags & O_CREAT) != 0 && inode_at(directory, path) == "0";
  const int descriptor = real(directory, path, flags, mode);
  call.opened(descriptor);
  if (descriptor >= 0 && is_new) call.log({"create", call.place(), inode_of(descriptor)});
  if (descriptor >= 0 && !is_new && call.logged() && (flags & O_TRUNC) != 0)
    call.log({"truncate", inode_of(descriptor), "0"});
  return descriptor;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

// Calls write(bytes), where a fault can reduce `bytes`. at: file offset; below 0: the current one.
template <typename F>
ssize_t write_file(
    const char* name, int descriptor, const void* buffer, std::size_t bytes, off_t at, F&& write) {
  Call call(name, descriptor);
  if (call.fails(bytes)) return -1;
  if (call.logged() && at < 0) at = lseek(descriptor, 0, SEEK_CUR);
  const ssize_t written = write(bytes);
  if (written > 0 && call.logged())
    call.log({"write", inode_of(descriptor), text(at), text(written)},
             buffer,
             static_cast<std::size_t>(written));
  return written;
}

template <typename F>
ssize_t read_file(const char* name, int descriptor, std::size_t bytes, F&& read) {
  Call call(name, descriptor);
  return call.fails(bytes) ? -1 : read(bytes);
}

int sync_file(const char* name, int descriptor, int (*real)(int)) {
  Call call(name, descriptor);
  if (call.fails()) return -1;
  const int result = real(descriptor);
  if (result == 0 && call.logged()) call.log({"sync", inode_of(descriptor)});
  return result;
}

int rename_file(const char* name,
                int from_directory,
                const char* from,
                int to_directory,
                const char* to,
                unsigned flags) {
  static const auto real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  Call call(name, from_directory, from);
  if (call.fails()) return -1;
  const int result = real(from_directory, from, to_directory, to, flags);
  if (result == 0 && call.logged())
    call.log({(flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename",
              call.place(),
              Call::position_of(to_directory, to)});
  return result;
}

int make_directory(const char* name, int directory, const char* path, mode_t mode) {
  static const auto real = next<int(int, const char*, mode_t)>("mkdirat");
  Call call(name, directory, path);
  if (call.fails()) return -1;
  const int result = real(directory, path, mode);
  if (result == 0 && call.logged()) call.log({"mkdir", call.place(), inode_at(directory, path)});
  return result;
}

// Removes a file or an empty directory.
template <typename F>
int remove_file(const char* name, int directory, const char* path, F&& remove) {
  Call call(name, directory, path);
  if (call.fails()) return -1;
  const int result = remove();
  if (result == 0 && call.logged()) call.log({"remove", call.place()});
  return result;
}

template <typename F>
int inspect(const char* name, int directory, const char* path, F&& query) {
  Call call(name, directory, path);
  return call.fails() ? -1 : query();
}

template <typename F>
int inspect(const char* name, int descriptor, F&& query) {
  Call call(name, descriptor);
  return call.fails() ? -1 : query();
}

int cut_file(const char* name, int descriptor, off_t bytes) {
  static const auto real = next<int(int, off_t)>("ftruncate");
  Call call(name, descriptor);
  if (call.fails()) return -1;
  const int result = real(descriptor, bytes);
  if (result == 0 && call.logged()) call.log({"truncate", inode_of(descriptor), text(bytes)});
  return result;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("open", AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("open", AT_FDCWD, path, flags, mode);
}
int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("openat", directory, path, flags, mode);
}
int openat64(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("openat", directory, path, flags, mode);
}
int creat(const char* path, mode_t mode) {
  return open_file("creat", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char* path, mode_t mode) {
  return open_file("creat", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int close(int descriptor) {
  static const auto real = next<int(int)>("close");
  Call call("close", descriptor);
  // The descriptor is invalid even after an error.
  call.closed(descriptor);
  const int result = real(descriptor);
  return call.fails() ? -1 : result;
}

DIR* opendir(const char* path) {
  static const auto real = next<DIR*(const char*)>("opendir");
  Call call("opendir", AT_FDCWD, path);
  if (call.fails()) return nullptr;
  DIR* const directory = real(path);
  if (directory != nullptr) call.opened(dirfd(directory));
  return directory;
}
DIR* fdopendir(int descriptor) {
  static const auto real = next<DIR*(int)>("fdopendir");
  Call call("fdopendir", descriptor);
  return call.fails() ? nullptr : real(descriptor);
}
struct dirent* readdir(DIR* directory) {
  static const auto real = next<struct dirent*(DIR*)>("readdir");
  Call call("readdir", dirfd(directory));
  return call.fails() ? nullptr : real(directory);
}
int closedir(DIR* directory) {
  static const auto real = next<int(DIR*)>("closedir");
  Call call("closedir", dirfd(directory));
  call.closed(dirfd(directory));
  return real(directory);
}

ssize_t read(int descriptor, void* buffer, std::size_t bytes) {
  static const auto real = next<ssize_t(int, void*, std::size_t)>("read");
  return read_file(
      "read", descriptor, bytes, [&](std::size_t most) { return real(descriptor, buffer, most); });
}
ssize_t pread(int descriptor, void* buffer, std::size_t bytes, off_t at) {
  static const auto real = next<ssize_t(int, void*, std::size_t, off_t)>("pread");
  return read_file("pread", descriptor, bytes, [&](std::size_t most) {
    return real(descriptor, buffer, most, at);
  });
}
ssize_t pread64(int descriptor, void* buffer, std::size_t bytes, off64_t at) {
  return pread(descriptor, buffer, bytes, at);
}
ssize_t write(int descriptor, const void* buffer, std::size_t bytes) {
  static const auto real = next<ssize_t(int, const void*, std::size_t)>("write");
  return write_file("write", descriptor, buffer, bytes, -1, [&](std::size_t most) {
    return real(descriptor, buffer, most);
  });
}
ssize_t pwrite(int descriptor, const void* buffer, std::size_t bytes, off_t at) {
  static const auto real = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  return write_file("pwrite", descriptor, buffer, bytes, at, [&](std::size_t most) {
    return real(descriptor, buffer, most, at);
  });
}
ssize_t pwrite64(int descriptor, const void* buffer, std::size_t bytes, off64_t at) {
  return pwrite(descriptor, buffer, bytes, at);
}
// Counts and logs one write of all parts.
ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  static const auto real = next<ssize_t(int, const struct iovec*, int)>("writev");
  if (Own::any()) return real(descriptor, parts, count);
  std::vector<char> whole;
  {
    const Own own;
    for (int i = 0; i < count; ++i) {
      const auto* begin = static_cast<const char*>(parts[i].iov_base);
      whole.insert(whole.end(), begin, begin + parts[i].iov_len);
    }
  }
  return write_file("writev", descriptor, whole.data(), whole.size(), -1, [&](std::size_t most) {
    const struct iovec part = {whole.data(), most};
    return real(descriptor, &part, 1);
  });
}

int fsync(int descriptor) {
  static const auto real = next<int(int)>("fsync");
  return sync_file("fsync", descriptor, real);
}
int fdatasync(int descriptor) {
  static const auto real = next<int(int)>("fdatasync");
  return sync_file("fdatasync", descriptor, real);
}
int ftruncate(int descriptor, off_t bytes) noexcept {
  return cut_file("ftruncate", descriptor, bytes);
}
int ftruncate64(int descriptor, off64_t bytes) noexcept {
  return cut_file("ftruncate", descriptor, bytes);
}
int flock(int descriptor, int operation) noexcept {
  static const auto real = next<int(int, int)>("flock");
  return inspect("flock", descriptor, [&] { return real(descriptor, operation); });
}

int rename(const char* from, const char* to) noexcept {
  return rename_file("rename", AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  return rename_file("renameat", from_directory, from, to_directory, to, 0);
}
int renameat2(int from_directory,
              const char* from,
              int to_directory,
              const char* to,
              unsigned flags) noexcept {
  return rename_file("renameat2", from_directory, from, to_directory, to, flags);
}
int mkdir(const char* path, mode_t mode) noexcept {
  return make_directory("mkdir", AT_FDCWD, path, mode);
}
int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  return make_directory("mkdirat", directory, path, mode);
}
int unlink(const char* path) noexcept {
  static const auto real = next<int(const char*)>("unlink");
  return remove_file("unlink", AT_FDCWD, path, [&] { return real(path); });
}
int unlinkat(int directory, const char* path, int flags) noexcept {
  static const auto real = next<int(int, const char*, int)>("unlinkat");
  return remove_file("unlinkat", directory, path, [&] { return real(directory, path, flags); });
}
int rmdir(const char* path) noexcept {
  static const auto real = next<int(const char*)>("rmdir");
  return remove_file("rmdir", AT_FDCWD, path, [&] { return real(path); });
}
int remove(const char* path) noexcept {
  static const auto real = next<int(const char*)>("remove");
  return remove_file("remove", AT_FDCWD, path, [&] { return real(path); });
}

int stat(const char* path, struct stat* status) noexcept {
  static const auto real = next<int(const char*, struct stat*)>("stat");
  return inspect("stat", AT_FDCWD, path, [&] { return real(path, status); });
}
int lstat(const char* path, struct stat* status) noexcept {
  static const auto real = next<int(const char*, struct stat*)>("lstat");
  return inspect("lstat", AT_FDCWD, path, [&] { return real(path, status); });
}
int fstat(int descriptor, struct stat* status) noexcept {
  static const auto real = next<int(int, struct stat*)>("fstat");
  return inspect("fstat", descriptor, [&] { return real(descriptor, status); });
}
}

}  // namespace longspan::testing
