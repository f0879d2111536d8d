#include "framework/report/tailed_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "framework/core/error.h"

namespace longspan {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{64} << 20;
constexpr std::size_t max_cached_bytes = 4096;  // stored of the last line

// Calls `take` with each complete line of the bytes from `begin` to `end`, and with its offset.
template <typename Take>
void for_each_line(const std::filesystem::path& path,
                   std::uintmax_t begin,
                   std::uintmax_t end,
                   const Take& take) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError("{}: cannot be opened", path.string());
  file.seekg(static_cast<std::streamoff>(begin));
  std::vector<char> buffer(std::clamp<std::uintmax_t>(end - begin, 1, std::uintmax_t{1} << 20));
  std::size_t kept = 0;           // bytes of an incomplete line
  std::uintmax_t offset = begin;  // of the buffer's first byte
  while (end > offset + kept) {
    if (kept == buffer.size()) {
      if (kept >= max_line_bytes)
        throw DataError("{}: has a line of more than {} bytes", path.string(), max_line_bytes);
      buffer.resize(2 * buffer.size());
    }
    const auto room = std::min<std::uintmax_t>(buffer.size() - kept, end - offset - kept);
    file.read(buffer.data() + kept, static_cast<std::streamsize>(room));
    const auto count = static_cast<std::size_t>(file.gcount());
    if (count == 0) return;  // the file was truncated
    const char* at = buffer.data();
    const char* const filled = at + kept + count;
    while (const void* const found = std::memchr(at, '\n', static_cast<std::size_t>(filled - at))) {
      const auto* const stop = static_cast<const char*>(found);
      take(std::string_view(at, static_cast<std::size_t>(stop - at)),
           offset + static_cast<std::uintmax_t>(at - buffer.data()));
      at = stop + 1;
    }
    offset += static_cast<std::uintmax_t>(at - buffer.data());
    kept = static_cast<std::size_t>(filled - at);
    std::memmove(buffer.data(), at, kept);
  }
}

constexpr std::size_t max_warning_bytes = 1000;

// "2025-01-31 12:34:56.789 warning ...": the format of framework/training_loop/log.h.
bool is_warning(std::string_view line) {
  constexpr std::size_t after_time = 24;
  if (line.size() <= after_time || line[4] != '-' || line[13] != ':') return false;
  const std::string_view rest = line.substr(after_time);
  return rest.starts_with("warning ") || rest.starts_with("error ") ||
         rest.starts_with("critical ");
}

}  // namespace

// Returns whether the file still begins with the consumed lines, judging by the last one.
bool TailedFile::goes_on(std::uintmax_t bytes, const std::string& identity) const {
  if (identity != identity_ || bytes < taken_) return false;
  if (last_line_.empty()) return true;
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(taken_ - 1 - last_line_.size()));
  std::string now(last_line_.size(), '\0');
  file.read(now.data(), std::ssize(now));
  return file && now == last_line_;
}

TailedFile::Change TailedFile::poll() {
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  const auto bytes = exists ? static_cast<std::uintmax_t>(status.st_size) : 0;
  const std::string identity = exists ? fmt::format("{} {}", status.st_dev, status.st_ino) : "";
  Change change = bytes == seen_ ? Change::none : Change::more;
  if (!goes_on(bytes, identity)) {
    restart();
    identity_ = identity;
    change = Change::another;
  }
  seen_ = bytes;
  return change;
}

void TailedFile::read(const Take& take) {
  if (seen_ <= taken_) return;
  for_each_line(path_, taken_, seen_, [&](std::string_view line, std::uintmax_t offset) {
    ++lines_;
    take(line, offset);
    taken_ = offset + line.size() + 1;
    last_line_ = line.substr(line.size() - std::min(line.size(), max_cached_bytes));
  });
}

bool TailedFile::follow(const std::function<void()>& drop, const Take& take) {
  const std::uintmax_t before = taken_;
  const Change change = poll();
  if (change == Change::none) return false;
  const bool is_other = change == Change::another;
  if (is_other) drop();
  try {
    read(take);
  } catch (...) {
    drop();
    forget();
    throw;
  }
  return is_other ? before > 0 || taken_ > 0 : taken_ != before;
}

void TailedFile::restart() {
  taken_ = 0;
  lines_ = 0;
  last_line_.clear();
}

void TailedFile::forget() {
  restart();
  identity_.clear();
}

void add_warning(std::deque<std::string>& newest, std::string_view line, std::size_t most) {
  if (!is_warning(line)) return;
  if (newest.size() == most) newest.pop_front();
  newest.emplace_back(line.substr(0, max_warning_bytes));
}

std::vector<std::string> log_warnings(const std::filesystem::path& path, std::size_t most) {
  std::deque<std::string> newest;
  std::error_code error;
  // Reading a pipe or device would never end.
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  std::array<char, max_warning_bytes + 1> line{};
  bool begins = true;  // the buffer begins a line, instead of continuing a long one
  while (file.getline(line.data(), line.size()) || (file.gcount() > 0 && !file.eof())) {
    const bool is_cut = file.fail();
    file.clear();
    const std::string_view text(line.data());
    if (begins) add_warning(newest, text, most);
    begins = !is_cut;
  }
  return {newest.begin(), newest.end()};
}

}  // namespace longspan
