// What a run says of itself before its first step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/distributed/gpu_collectives.h"
#include "framework/tasks/task.h"
#include "framework/training_loop/log.h"

namespace longspan {

// The run, made and ready.
struct RunSummary {
  const RunConfig& settings;
  const std::vector<std::string>& warnings;  // of its configuration
  const ProcessMesh& mesh;
  const Device& device;
  const GpuCollectives& collectives;
  const Parameters& parameters;
  const Task& task;
  std::int64_t threads = 0;  // of the rank that has most
  double peak = 0;           // FLOP/s of all ranks
};

// Collective. The model, its layout and its text; what will be slower than it could be, and what
// was asked for and has no effect.
void log_run_summary(const Log& log, const RunSummary& run);

// Instead of training, where a run is at or past training.max_steps, `wanted`.
void log_nothing_to_train(const Log& log, std::int64_t steps, std::int64_t wanted);

}  // namespace longspan
