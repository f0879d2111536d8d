// Files of a run that another process is appending to: lines, and the warnings of a log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// Reads incrementally: a poll costs only the data written since the last one. A truncated or
// replaced file is reread from its beginning.
class TailedFile {
 public:
  // Receives a complete line, without its newline, and its offset in the file.
  using Take = std::function<void(std::string_view line, std::uintmax_t offset)>;

  explicit TailedFile(std::filesystem::path path) : path_(std::move(path)) {}

  enum class Change : std::uint8_t { none, more, another };
  // Returns the file's change since the last poll. After `another`, nothing is consumed yet.
  Change poll();
  // Passes on the complete lines that the last poll found and that are not consumed. Throws
  // DataError when the file cannot be read or has a line of more than 64 MiB.
  void read(const Take& take);
  // Calls poll and read, and returns whether anything is new. `drop` must discard earlier results.
  // If `take` throws, the next poll restarts from the beginning.
  bool follow(const std::function<void()>& drop, const Take& take);

  // Discards the progress: nothing is consumed.
  void restart();
  // Makes the next poll report another file.
  void forget();

  const std::filesystem::path& path() const { return path_; }
  // Bytes and number of the consumed lines, including the current one.
  std::uintmax_t taken() const { return taken_; }
  std::int64_t lines() const { return lines_; }

 private:
  bool goes_on(std::uintmax_t bytes, const std::string& identity) const;

  std::filesystem::path path_;
  std::uintmax_t seen_ = 0;   // file size at the last poll
  std::uintmax_t taken_ = 0;  // bytes of consumed complete lines
  std::int64_t lines_ = 0;
  std::string last_line_ = {};  // its end; a difference there reveals a replaced file
  std::string identity_ = {};   // of the file
};

// Warnings in a run's log.txt.

inline constexpr std::size_t max_warnings = 40;

// Adds a log line whose level is warning or error, truncated if long, and drops the oldest of more
// than `most`. Ignores other lines.
void add_warning(std::deque<std::string>& newest,
                 std::string_view line,
                 std::size_t most = max_warnings);

// Returns the newest log lines whose level is warning or error, oldest first. Empty where the file
// is missing or unreadable. Long lines are truncated.
std::vector<std::string> log_warnings(const std::filesystem::path& path,
                                      std::size_t most = max_warnings);

}  // namespace longspan
