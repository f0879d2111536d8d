// TensorBoard event files: TFRecords, each with its length and checksums.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "framework/tracking/metrics_record.h"

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

// Returns the CRC-32C (Castagnoli) of RFC 3720.
std::uint32_t crc32c(std::string_view bytes);

// Returns the CRC in TFRecord form: rotated right by 15 bits and added to a constant. It stays
// effective for data that contains checksums.
std::uint32_t masked_crc32c(std::string_view bytes);

// TensorBoard's event messages in protocol buffer wire format. Field numbers are from event.proto
// and summary.proto of TensorBoard, and from plugin_data.proto of its hyperparameter plugin.

// Time and step of an event.
struct EventTime {
  double seconds = 0;  // since 1970
  std::int64_t step = 0;
};

// Returns the first event of a file.
std::string version_event(double seconds);

// Returns the start of a session at that step: a reader discards earlier events of this and later
// steps. Readers ignore it in the first session of a run.
std::string session_start_event(const EventTime& time);

// Returns the numbers, histograms and images of a record.
std::string record_event(const MetricsRecord& record);

// Returns Markdown text under a tag.
std::string text_event(const EventTime& time, const std::string& tag, const std::string& markdown);

// Returns the keys of a configuration for the hyperparameter table. Numbers and booleans keep their
// type.
std::string hyper_parameters_event(const EventTime& time,
                                   const std::map<std::string, std::string>& keys,
                                   const std::string& run_id);

// Returns the step of an event; nothing for invalid bytes.
std::optional<std::int64_t> step_of_event(std::string_view event);

}  // namespace longspan
