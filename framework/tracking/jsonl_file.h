// A file of lines, each of a step, that goes on where a checkpoint was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "framework/tracking/metrics_record.h"

namespace longspan {

// The lines of a kind of file: JSON objects in the order of their steps.
struct JsonlFormat {
  std::string_view begin;                                  // of every line
  std::string_view step_key;                               // of the step
  std::string_view loss_key = {};                          // of the loss, where the kind has one
  std::string_view norm_key = {};                          // of the gradient's norm, the same
  std::string_view text_key = {};                          // of a text, where every line has one
  std::string_view a_line = "a line of metrics";           // in a sentence
  std::function<std::string(const MetricsRecord&)> lines;  // of a record, each with its end;
                                                           // none where it has nothing for them
};

// How far a file of metrics goes.
struct MetricsEnd {
  std::int64_t step = 0;              // of its last whole line; 0 where there is none, or no file
  std::int64_t with_loss = 0;         // of the last one whose loss and gradient are finite
  std::int64_t with_loss_before = 0;  // and of the last such one before it
};
// Throws DataError as JsonlFile does.
MetricsEnd end_of_lines(const std::filesystem::path& path, const JsonlFormat& kind);

// The file, open for one rank to append. What was written before `last_step` stays; lines after it,
// and a last line that a killed run left unfinished, are cut off, so that a resumed run's file is
// that of an unbroken run. The lines of a record are written by one write(2).
class JsonlFile : public MetricsSink {
 public:
  // last_step: of the checkpoint that the run goes on from; 0 for a new run, which begins an empty
  // file. Throws DataError, naming the line, when what is there is no file of that kind, which is
  // left as it is, and Failure when it cannot be opened or cut.
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
