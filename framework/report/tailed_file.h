// A file of lines that someone else writes to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace longspan {

// What was taken is not read again: a look costs what was written since the last one. A file that
// was cut or replaced begins anew.
class TailedFile {
 public:
  // Told a whole line, without its end, and its offset in the file.
  using Take = std::function<void(std::string_view line, std::uintmax_t offset)>;

  explicit TailedFile(std::filesystem::path path) : path_(std::move(path)) {}

  enum class Change : std::uint8_t { none, more, another };
  // What became of the file since the last look; of another one nothing is taken yet.
  Change poll();
  // Takes the whole lines that it had then and that are not taken. Throws DataError where it cannot
  // be read or has a line of more than 64 MiB.
  void read(const Take& take);
  // Both, for who keeps what he took: `drop` is to forget it. Whether anything is new. After
  // what `take` throws the next look begins anew.
  bool follow(const std::function<void()>& drop, const Take& take);

  // Nothing is taken any more.
  void begin_anew();
  // The next look finds another file.
  void forget();

  const std::filesystem::path& path() const { return path_; }
  // Bytes of the lines that are taken, and their number, with that which is being taken.
  std::uintmax_t taken() const { return taken_; }
  std::int64_t lines() const { return lines_; }

 private:
  bool goes_on(std::uintmax_t bytes, const std::string& identity) const;

  std::filesystem::path path_;
  std::uintmax_t seen_ = 0;   // bytes that the file had at the last look
  std::uintmax_t taken_ = 0;  // of them, of whole lines
  std::int64_t lines_ = 0;
  std::string last_line_ = {};  // the end of it: another one there tells another file
  std::string identity_ = {};   // of the file
};

}  // namespace longspan
