// A file of JSON lines, each of a step, that resumes at a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "framework/tracking/metrics_record.h"

namespace longspan {

// Format of the lines of a file: JSON objects in step order.
struct JsonlFormat {
  std::string_view begin;     // prefix of every line
  std::string_view step_key;  // key of the step
  // Key of the loss, where the format has one.
  std::string_view loss_key = {};
  // Key of the gradient norm, where the format has one.
  std::string_view norm_key = {};
  // Key of a string, where every line has one.
  std::string_view text_key = {};
  std::string_view a_line = "a line of metrics";  // noun for messages
  // A record's lines, each with its newline; empty: none.
  std::function<std::string(const MetricsRecord&)> lines;
};

// The end of a metrics file.
struct MetricsEnd {
  std::int64_t step = 0;              // of its last complete line; 0: none, or no file
  std::int64_t with_loss = 0;         // of the last one with finite loss and gradient norm
  std::int64_t with_loss_before = 0;  // of the last such one before it
};
// Throws DataError as JsonlFile does.
MetricsEnd end_of_lines(const std::filesystem::path& path, const JsonlFormat& kind);

// The file, open on one rank for appending. Lines up to `last_step` stay; later lines, and an
// incomplete last line of a killed run, are removed. So a resumed run's file equals an
// uninterrupted run's. A record's lines are one write(2).
class JsonlFile : public MetricsSink {
 public:
  // last_step: of the checkpoint that the run resumes from; 0 for a new run, which starts an empty
  // file. Throws DataError, with the line number, when the existing file has another format; the
  // file is then unchanged. Throws Failure when it cannot be opened or truncated.
  JsonlFile(const std::filesystem::path& path, std::int64_t last_step, JsonlFormat kind);
  JsonlFile(const JsonlFile&) = delete;
  JsonlFile& operator=(const JsonlFile&) = delete;
  ~JsonlFile() override;

  void write(const MetricsRecord& record) override;
  void sync() override;

 private:
  std::filesystem::path path_;
  JsonlFormat kind_;
  int file_ = -1;
};

}  // namespace longspan
