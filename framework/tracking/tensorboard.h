// What TensorBoard shows of a run.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "framework/tracking/event_file.h"
#include "framework/tracking/metrics_record.h"

namespace longspan {

// A run as it begins, or goes on.
struct TrackedRun {
  std::string id;
  std::int64_t first_step = 0;                   // steps that are done
  std::string configuration;                     // resolved, as text
  std::map<std::string, std::string> keys = {};  // the same by key, as they are written
  std::int64_t first_tokens = 0;                 // that were trained on in the steps done
};

// A file of events in a folder, begun for each start of a run. What earlier starts told of later
// steps than `first_step` is cut off their files, and TensorBoards that have read it are told so:
// each step is there once. The configuration and the hyper-parameters are told with the step that
// comes next.
class TensorBoardFiles : public MetricsSink {
 public:
  // Makes the folder. Throws Failure.
  TensorBoardFiles(const std::filesystem::path& folder, const TrackedRun& run);

  void write(const MetricsRecord& record) override;
  void sync() override { file_.sync(); }

 private:
  TensorBoardEventFile file_;
};

}  // namespace longspan
