// TensorBoard event files: TFRecords, each with its length and checksums.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace longspan {

// Returns a record's bytes: length, its masked checksum, data, their masked checksum.
std::string record_frame(std::string_view data);

// A new event file, open for appending. Each event is one write(2), so events of a killed run are
// readable.
class TensorBoardEventFile {
 public:
  // Throws Failure where the file exists already or cannot be created.
  explicit TensorBoardEventFile(const std::filesystem::path& path);
  TensorBoardEventFile(const TensorBoardEventFile&) = delete;
  TensorBoardEventFile& operator=(const TensorBoardEventFile&) = delete;
  ~TensorBoardEventFile();

  // Throws Failure when the event cannot be written completely.
  void write(std::string_view event);
  void sync();

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

// Returns the name of a new event file. It sorts after all existing ones, since readers process a
// directory's files in name order.
std::string next_event_file(const std::filesystem::path& folder, std::int64_t now);

// Removes the events of steps after `last_step`, and incomplete records at the end, from this
// program's event files in a directory. A file is left unchanged from its first unreadable record
// on. Throws Failure where a file cannot be opened, read or truncated.
void truncate_events(const std::filesystem::path& folder, std::int64_t last_step);

}  // namespace longspan
