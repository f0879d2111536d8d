// TensorBoard logging of a run.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "framework/tracking/event_file.h"
#include "framework/tracking/metrics_record.h"

namespace longspan {

// A run at its start or resumption.
struct TrackedRun {
  std::string id;
  std::int64_t first_step = 0;                   // completed steps
  std::string configuration;                     // resolved, as text
  std::map<std::string, std::string> keys = {};  // the configuration by key, as written
  std::int64_t first_tokens = 0;                 // tokens of the completed steps
};

// Writes one event file in a directory for each start of a run. Events of earlier starts after
// `first_step` are truncated, and running TensorBoards are notified, so that each step occurs once.
// The configuration and hyperparameters are written with the next step.
class TensorBoardFiles : public MetricsSink {
 public:
  // Creates the directory. Throws Failure.
  TensorBoardFiles(const std::filesystem::path& folder, const TrackedRun& run);

  void write(const MetricsRecord& record) override;
  void sync() override { file_.sync(); }

 private:
  TensorBoardEventFile file_;
};

}  // namespace longspan
