// A file of metrics that a run writes to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/report/metrics_reading.h"
#include "framework/report/tailed_file.h"

namespace longspan {

// What was read stays read: a look costs what was written since the last one. Only a file that was
// cut or replaced, as by a run that goes back to a checkpoint, and one whose steps come again, is
// read from its beginning.
class TailedMetrics {
 public:
  explicit TailedMetrics(std::filesystem::path path, std::size_t most_buckets = 2000);

  // Takes in the whole lines that the file has now. Whether anything is new. Throws DataError where
  // something else than a line of metrics is among them, which is told with its number, and where
  // the file cannot be read; the next look begins anew then.
  bool poll();

  // As read_run_metrics has them. Without lines: there is no file, or no whole line in it.
  const RunMetrics& metrics() const { return reading_.metrics(); }

 private:
  void begin_anew(std::vector<StepRewind> known = {});
  void take();

  TailedFile file_;
  std::size_t most_buckets_;
  MetricsParser reading_;
  std::vector<StepRewind> known_;  // what the reading was begun with
};

}  // namespace longspan
