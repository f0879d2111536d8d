// Files of events, as TensorBoard reads them: TFRecords, each with its length and checksums.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace longspan {

// The bytes of a record: length, its masked checksum, data, their masked checksum.
std::string record_frame(std::string_view data);

// A file of events that is begun, open to append. Each event is written by one write(2): what a
// killed run has written can be read.
class TensorBoardEventFile {
 public:
  // Throws Failure where it is there already or cannot be made.
  explicit TensorBoardEventFile(const std::filesystem::path& path);
  TensorBoardEventFile(const TensorBoardEventFile&) = delete;
  TensorBoardEventFile& operator=(const TensorBoardEventFile&) = delete;
  ~TensorBoardEventFile();

  // Throws Failure when the event cannot be written whole.
  void write(std::string_view event);
  void sync();

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

// The name for a file of events that begins now. Readers go through the files of a folder in the
// order of their names: it comes after all that are there.
std::string next_event_file(const std::filesystem::path& folder, std::int64_t now);

// Cuts the events of steps after `last_step` off the files of events of a folder that this program
// wrote, and what a killed run left unfinished at their ends. From where a file cannot be read it
// stays as it is. Throws Failure where a file cannot be opened, read or cut.
void truncate_events(const std::filesystem::path& folder, std::int64_t last_step);

}  // namespace longspan
