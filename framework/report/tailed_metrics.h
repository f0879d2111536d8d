// A metrics file that a run is appending to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/report/metrics_reading.h"
#include "framework/report/tailed_file.h"

namespace longspan {

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
