// Lines of metrics, one after another, as what a picture of them needs.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/report/metric_line.h"
#include "framework/report/metrics_file.h"

namespace longspan {

// A line whose step is not beyond that of the line before it: whatever stands before it and has its
// step or a later one comes again.
struct StepRewind {
  std::uintmax_t offset = 0;  // of the line in its file
  std::int64_t step = 0;

  friend bool operator==(const StepRewind&, const StepRewind&) = default;
};

// One reading of a file, from its beginning. Lines whose steps come again later do not count, as
// far as it is known where they do.
class MetricsParser {
 public:
  // known: the returns that are in the file.
  MetricsParser(std::size_t most_buckets, std::vector<StepRewind> known);

  // False: this is no line of metrics. `offset` is its place in the file.
  bool take(std::string_view line, std::uintmax_t offset);

  // The returns among what was taken.
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
  std::size_t next_ = 0;  // of the known ones: the first after the line
  std::int64_t step_before_ = -1;
  std::size_t expected_ = 0;  // lines mostly have the same columns in the same order
};

}  // namespace longspan
