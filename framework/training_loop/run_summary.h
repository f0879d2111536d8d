// Summary that a run logs before its first step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/distributed/gpu_collectives.h"
#include "framework/tasks/task.h"
#include "framework/training_loop/log.h"

namespace longspan {

// A run that is ready to train.
struct RunSummary {
  const RunConfig& settings;
  const std::vector<std::string>& warnings;  // of its configuration
  const ProcessMesh& mesh;
  const Device& device;
  const GpuCollectives& collectives;
  const Parameters& parameters;
  const Task& task;
  std::int64_t threads = 0;  // of the rank with the most threads
  double peak = 0;           // FLOP/s of all ranks
};

// Logs the model, its layout and its data. Warns about settings that slow training down or have no
// effect. Collective.
void log_run_summary(const Log& log, const RunSummary& run);

// Logs that there is nothing to train, as a run is at or past training.max_steps.
void log_nothing_to_train(const Log& log, std::int64_t steps, std::int64_t wanted);

}  // namespace longspan
