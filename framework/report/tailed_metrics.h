// A metrics file that a run is appending to.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/report/metrics_file.h"
#include "framework/report/tailed_file.h"

namespace longspan {

// One member of the object. `none`: null, which replaces a non-finite number.
struct LineField {
  enum class Kind : std::uint8_t { number, none, text };

  std::string_view name;
  Kind kind = Kind::number;
  double number = 0;
  std::string_view text = {};
};

// Parses one line after another. Plain lines, as the trainer writes them, are parsed in place;
// lines with escapes or nested values use the JSON library.
class MetricLineReader {
 public:
  // Returns whether the line, without its newline, is a JSON object whose "step" is a non-negative
  // integer. Skips members that are neither numbers, null nor strings.
  bool read(std::string_view line);

  // Views into the last parsed line, valid until the next read.
  std::int64_t step() const { return step_; }
  std::span<const LineField> fields() const { return fields_; }

 private:
  bool read_plain(std::string_view line);
  bool read_any(std::string_view line);
  bool find_step();

  std::int64_t step_ = 0;
  std::vector<LineField> fields_;
  std::deque<std::string> texts_;  // storage for the views of a line that is not plain
};

// A line whose step is not greater than the previous line's. Earlier lines with its step or a later
// one are superseded.
struct StepRewind {
  std::uintmax_t offset = 0;  // of the line in its file
  std::int64_t step = 0;

  friend bool operator==(const StepRewind&, const StepRewind&) = default;
};

// One pass over a file from its beginning. Lines superseded by later ones are skipped, as far as
// the rewinds are known.
class MetricsParser {
 public:
  // `known`: the rewinds in the file.
  MetricsParser(std::size_t max_buckets, std::vector<StepRewind> known);

  // Returns false for an invalid metrics line. `offset`: its position in the file.
  bool take(std::string_view line, std::uintmax_t offset);

  // Returns the rewinds found so far.
  const std::vector<StepRewind>& found() const { return found_; }
  const RunMetrics& metrics() const { return metrics_; }

 private:
  void add(std::int64_t step);
  void advance(std::int64_t step);
  void add_number(const LineField& field, std::int64_t step);
  void add_text(const LineField& field, std::int64_t step);
  std::size_t column_of(std::string_view name);
  void add_value(std::size_t column, std::int64_t step, double value);

  RunMetrics metrics_;
  MetricLineReader reader_;
  std::vector<StepRewind> known_;
  std::vector<StepRewind> found_;
  std::size_t next_ = 0;  // index of the first known rewind after the line
  std::int64_t step_before_ = -1;
  std::size_t expected_ = 0;  // next column index: lines mostly have identical columns in order
};

// Reads incrementally: a poll costs only the data written since the last one. The file is reread
// from its beginning when it is truncated or replaced, as by a rollback to a checkpoint, or when
// steps repeat.
class TailedMetrics {
 public:
  explicit TailedMetrics(std::filesystem::path path, std::size_t max_buckets = 2000);

  // Parses the complete lines that the file has now and returns whether any are new. Throws
  // DataError, with the line number, for an invalid metrics line, and when the file cannot be read.
  // The next poll then restarts from the beginning.
  bool poll();

  // Equals the result of read_run_metrics. Without lines: there is no file, or no complete line.
  const RunMetrics& metrics() const { return reading_.metrics(); }

 private:
  void restart(std::vector<StepRewind> known = {});
  void take();

  TailedFile file_;
  std::size_t max_buckets_;
  MetricsParser reading_;
  std::vector<StepRewind> known_;  // step rewinds known when the parse began
};

}  // namespace longspan
