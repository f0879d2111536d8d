#include "checkpoints/files.h"

#define XXH_STATIC_LINKING_ONLY  // for the size of the state
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/core/system.h"

namespace longspan {
namespace {

constexpr std::size_t buffer_bytes = 1 << 20;

Descriptor open_file(const std::filesystem::path& path, int flags) {
  return Descriptor(retry_interrupted([&] { return open(path.c_str(), flags | O_CLOEXEC, 0666); }));
}

// Reads at an offset; returns fewer bytes only at the end of the file. Throws DataError.
std::size_t read_at(const Descriptor& file,
                    std::byte* buffer,
                    std::size_t bytes,
                    std::int64_t offset,
                    const std::filesystem::path& path) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t count = retry_interrupted([&] {
      return pread(file.get(), buffer + done, bytes - done, offset + static_cast<off_t>(done));
    });
    if (count < 0) throw DataError("{}: cannot read: {}", path.string(), errno_message());
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

void sync(const Descriptor& file, const std::filesystem::path& path) {
  if (!file.defined() || retry_interrupted([&] { return fsync(file.get()); }) != 0)
    throw Failure("{}: fsync failed: {}", path.string(), errno_message());
}

}  // namespace

std::string Hash::to_string() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash Hash::from_string(std::string_view text, const std::string& place) {
  Hash hash;
  if (text.size() == 32) {
    std::from_chars(text.data(), text.data() + 16, hash.high, 16);
    std::from_chars(text.data() + 16, text.data() + 32, hash.low, 16);
  }
  // The round trip rejects capitals, signs and all other non-digits.
  if (hash.to_string() != text)
    throw DataError("{}: expected a hash of 32 hexadecimal digits, found {}", place, quote(text));
  return hash;
}

struct Hasher::State {
  XXH3_state_t hash;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }

Hasher::~Hasher() = default;

void Hasher::add(const void* bytes, std::size_t size) {
  if (size > 0) XXH3_128bits_update(&state_->hash, bytes, size);
}

Hash Hasher::result() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  return {hash.high64, hash.low64};
}

Hash hash_of(std::string_view bytes) {
  Hasher hasher;
  hasher.add(bytes.data(), bytes.size());
  return hasher.result();
}

Descriptor::~Descriptor() {
  if (descriptor_ >= 0) close(descriptor_);
}

Descriptor open_regular(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a named pipe would block.
  Descriptor file = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file.defined() && errno == ELOOP)
    throw DataError("{}: expected a regular file, found a symbolic link", path.string());
  if (!file.defined() && errno == ENOENT) throw DataError("{}: no such file", path.string());
  if (!file.defined()) throw DataError("{}: cannot open: {}", path.string(), errno_message());
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw DataError("{}: expected a regular file", path.string());
  return file;
}

std::int64_t size_of_file(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0)
    throw DataError("{}: stat failed: {}", path.string(), errno_message());
  return status.st_size;
}

FileHash hash_file(const Descriptor& file,
                   const std::filesystem::path& path,
                   const ReadProgress& watch) {
  std::vector<std::byte> buffer(buffer_bytes);
  Hasher hasher;
  FileHash result;
  while (true) {
    const std::size_t count = read_at(file, buffer.data(), buffer.size(), result.bytes, path);
    hasher.add(buffer.data(), count);
    result.bytes += static_cast<std::int64_t>(count);
    if (watch) watch(static_cast<std::int64_t>(count));
    if (count < buffer.size()) break;
  }
  result.hash = hasher.result();
  return result;
}

std::string read_text_file(const std::filesystem::path& path,
                           std::int64_t most,
                           const std::function<void(std::string_view block)>& judge) {
  const Descriptor file = open_regular(path);
  const std::int64_t bytes = size_of_file(file, path);
  if (bytes > most)
    throw DataError("{}: expected at most {} bytes, found {}", path.string(), most, bytes);
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min(bytes, static_cast<std::int64_t>(buffer_bytes))));
  std::string text;
  while (static_cast<std::int64_t>(text.size()) < bytes) {
    const auto left = static_cast<std::size_t>(bytes) - text.size();
    const std::size_t count = read_at(file,
                                      buffer.data(),
                                      std::min(left, buffer.size()),
                                      static_cast<std::int64_t>(text.size()),
                                      path);
    if (count == 0) break;
    const std::string_view block(reinterpret_cast<const char*>(buffer.data()), count);
    judge(block);
    text += block;
  }
  return text;
}

namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using OpenDirectory = std::unique_ptr<DIR, CloseDirectory>;

std::vector<std::string> names_of(DIR* directory, const std::filesystem::path& path) {
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* const entry = readdir(directory);
    if (entry == nullptr && errno != 0)
      throw DataError("{}: cannot be read: {}", path.string(), errno_message());
    if (entry == nullptr) return names;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

bool remove_tree_in(int directory, const char* name) {
  constexpr int no_link = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int descriptor = retry_interrupted([&] { return openat(directory, name, no_link); });
  if (descriptor < 0 && errno == ENOENT) return true;
  if (descriptor < 0 && errno != ENOTDIR && errno != ELOOP) return false;
  if (descriptor < 0) return unlinkat(directory, name, 0) == 0;
  bool all = true;
  {
    const OpenDirectory open(fdopendir(descriptor));
    if (!open) {
      close(descriptor);
      return false;
    }
    for (const std::string& each : names_of(open.get(), name))
      all = remove_tree_in(descriptor, each.c_str()) && all;
  }
  return unlinkat(directory, name, AT_REMOVEDIR) == 0 && all;
}

}  // namespace

std::vector<std::string> list_directory(const std::filesystem::path& directory) {
  const OpenDirectory open(opendir(directory.c_str()));
  if (!open && (errno == ENOENT || errno == ENOTDIR)) return {};
  if (!open) throw DataError("{}: cannot be read: {}", directory.string(), errno_message());
  return names_of(open.get(), directory);
}

bool remove_tree(const std::filesystem::path& path) noexcept try {
  return remove_tree_in(AT_FDCWD, path.c_str());
} catch (const std::exception&) {
  return false;
}

std::uint64_t free_bytes(const std::filesystem::path& directory) noexcept {
  std::error_code error;
  const auto space = std::filesystem::space(directory, error);
  return error ? 0 : space.available;
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  const Descriptor file = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.defined())
    throw Failure("{}: cannot create the file: {}", path.string(), errno_message());
  while (!text.empty()) {
    const ssize_t count =
        retry_interrupted([&] { return ::write(file.get(), text.data(), text.size()); });
    if (count < 0) throw Failure("{}: cannot write: {}", path.string(), errno_message());
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  sync(file, path);
}

void sync_file(const std::filesystem::path& path) { sync(open_file(path, O_RDONLY), path); }
void sync_directory(const std::filesystem::path& path) {
  const Descriptor directory = open_file(path, O_RDONLY | O_DIRECTORY);
  const int done =
      directory.defined() ? retry_interrupted([&] { return fsync(directory.get()); }) : -1;
  // Some file systems cannot sync a directory and report EINVAL.
  if (done != 0 && !(directory.defined() && errno == EINVAL))
    throw Failure("{}: fsync failed: {}", path.string(), errno_message());
}

void sync_path_to(const std::filesystem::path& directory) {
  struct stat below {
  }, above{};
  std::filesystem::path path = std::filesystem::canonical(directory);
  if (stat(path.c_str(), &below) != 0) return;
  while (path.has_relative_path()) {
    path = path.parent_path();
    if (stat(path.c_str(), &above) != 0 || above.st_dev != below.st_dev) return;
    if (access(path.c_str(), R_OK) != 0) return;
    sync_directory(path);
  }
}

void atomic_replace(const std::filesystem::path& from,
                    const std::filesystem::path& to,
                    const std::filesystem::path& aside) {
  const auto move = [](const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code error;
    std::filesystem::rename(a, b, error);
    if (error)
      throw Failure("{}: cannot be renamed to {}: {}", a.string(), b.string(), error.message());
  };
  struct stat status {};
  if (lstat(to.c_str(), &status) != 0) return move(from, to);
#ifdef RENAME_EXCHANGE
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
    throw Failure("{}: cannot replace {}: {}", from.string(), to.string(), errno_message());
#endif
  move(to, aside);
  move(from, to);
}

LockFile LockFile::create(const std::filesystem::path& path) {
  LockFile lock;
  lock.path_ = path;
  lock.descriptor_ = open_file(path, O_RDWR | O_CREAT | O_EXCL);
  if (!lock.descriptor_.defined())
    throw Failure("{}: cannot create the file: {}", path.string(), errno_message());
  // Without lock support, the age of the file is used instead: see acquire_abandoned.
  retry_interrupted([&] { return flock(lock.descriptor_.get(), LOCK_EX); });
  struct stat mine {};
  if (fstat(lock.descriptor_.get(), &mine) != 0 || mine.st_nlink == 0)
    lock.descriptor_ = Descriptor();
  return lock;
}

void LockFile::remove() noexcept {
  if (!descriptor_.defined()) return;
  unlink(path_.c_str());
  descriptor_ = Descriptor();
}

std::optional<LockFile> LockFile::acquire_abandoned(const std::filesystem::path& path) {
  LockFile lock;
  lock.path_ = path;
  lock.descriptor_ = open_file(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (!lock.descriptor_.defined() && errno == ENOENT) return lock;
  if (!lock.descriptor_.defined()) return {};
  const auto take = [&] { return flock(lock.descriptor_.get(), LOCK_EX | LOCK_NB); };
  if (retry_interrupted(take) == 0) return lock;
  if (errno == EWOULDBLOCK) return {};
  constexpr std::int64_t hours = 3600;
  struct stat status {};
  if (fstat(lock.descriptor_.get(), &status) != 0) return {};
  if (time(nullptr) - status.st_mtime < 24 * hours) return {};
  return lock;
}

}  // namespace longspan
