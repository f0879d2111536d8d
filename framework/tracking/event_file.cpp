#include "framework/tracking/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "framework/tracking/append_file.h"
#include "framework/tracking/event_messages.h"
#include "framework/tracking/masked_crc.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "records are little-endian");

constexpr std::string_view name_begin = "events.out.tfevents.";
constexpr std::string_view name_end = ".longspan";
constexpr std::size_t header_bytes = 12;  // length and its checksum
constexpr std::size_t footer_bytes = 4;

template <typename T>
std::string bytes_of(T number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

template <typename T>
T number_in(std::string_view bytes) {
  T number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

// Returns the seconds in the name of a file of this program.
std::optional<std::int64_t> begun_at(const std::string& name) {
  if (!name.starts_with(name_begin) || !name.ends_with(name_end)) return std::nullopt;
  if (name.size() <= name_begin.size() + name_end.size()) return std::nullopt;
  std::int64_t seconds = 0;
  const char* const begin = name.data() + name_begin.size();
  const char* const end = name.data() + name.size() - name_end.size();
  const auto [stop, error] = std::from_chars(begin, end, seconds);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return seconds;
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (begun_at(entry.path().filename().string())) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

// RAII wrapper of a file descriptor.
class OpenFile {
 public:
  explicit OpenFile(const fs::path& path)
      : path_(path), file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    if (file_ < 0) fail_with_errno(path_, "cannot be opened");
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(file_); }

  std::int64_t size() const {
    struct stat status {};
    if (::fstat(file_, &status) != 0) fail_with_errno(path_, "cannot be read");
    return status.st_size;
  }
  // Reads at most `count` bytes from `begin` on.
  std::string read(std::int64_t begin, std::size_t count) const {
    std::string bytes(count, '\0');
    std::size_t done = 0;
    while (done < count) {
      const ssize_t got = ::pread(
          file_, bytes.data() + done, count - done, begin + static_cast<std::int64_t>(done));
      if (got == 0) break;
      if (got < 0 && errno != EINTR) fail_with_errno(path_, "cannot be read");
      if (got > 0) done += static_cast<std::size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  }
  void cut(std::int64_t size) const {
    if (::ftruncate(file_, size) != 0) fail_with_errno(path_, "cannot be truncated");
  }

 private:
  fs::path path_;
  int file_;
};

// Returns the offset of the first event of a later step, or of an incomplete record at the end.
// Returns the file's size without either, or where a record is invalid.
std::int64_t end_of_steps(const OpenFile& file, std::int64_t last_step) {
  const std::int64_t size = file.size();
  std::int64_t place = 0;
  while (place < size) {
    const std::string header = file.read(place, header_bytes);
    if (header.size() < header_bytes) return place;
    const std::string_view length = std::string_view(header).substr(0, 8);
    if (number_in<std::uint32_t>(std::string_view(header).substr(8)) != masked_crc32c(length))
      return size;
    const auto count = number_in<std::uint64_t>(length);
    const auto rest = static_cast<std::uint64_t>(size - place) - header_bytes;
    if (count > rest || rest - count < footer_bytes) return place;
    const std::string data = file.read(place + static_cast<std::int64_t>(header_bytes), count);
    const auto step = step_of_event(data);
    if (!step) return size;
    if (*step > last_step) return place;
    place += static_cast<std::int64_t>(header_bytes + count + footer_bytes);
  }
  return size;
}

}  // namespace

std::string record_frame(std::string_view data) {
  const std::string length = bytes_of(std::uint64_t{data.size()});
  std::string frame = length + bytes_of(masked_crc32c(length));
  frame += data;
  return frame + bytes_of(masked_crc32c(data));
}

TensorBoardEventFile::TensorBoardEventFile(const fs::path& path) : path_(path) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail_with_errno(path_, "cannot be created");
}

TensorBoardEventFile::~TensorBoardEventFile() { ::close(file_); }

void TensorBoardEventFile::write(std::string_view event) {
  write_all(file_, path_, record_frame(event));
}

void TensorBoardEventFile::sync() { fsync_file(file_, path_); }

std::string next_event_file(const fs::path& folder, std::int64_t now) {
  for (const fs::path& file : event_files(folder))
    now = std::max(now, *begun_at(file.filename().string()) + 1);
  return fmt::format("{}{:010}{}", name_begin, now, name_end);
}

void truncate_events(const fs::path& folder, std::int64_t last_step) {
  for (const fs::path& path : event_files(folder)) {
    const OpenFile file(path);
    const std::int64_t end = end_of_steps(file, last_step);
    if (end < file.size()) file.cut(end);
  }
}

}  // namespace longspan
