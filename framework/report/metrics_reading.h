// Parses metrics lines incrementally into the data of the charts.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/report/metric_line.h"
#include "framework/report/metrics_file.h"

namespace longspan {

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

}  // namespace longspan
