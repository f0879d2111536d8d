// What a training run is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "framework/comm/gpu_collectives.h"
#include "framework/comm/session.h"
#include "framework/data/batch_loader.h"
#include "framework/runs/checkpoint_saver.h"
#include "framework/runs/log.h"
#include "framework/runs/memory_table.h"
#include "framework/runs/profiler.h"
#include "framework/runs/progress.h"
#include "framework/runs/resume.h"
#include "framework/runs/run_directory.h"
#include "framework/runs/run_speed.h"
#include "framework/runs/stop_request.h"
#include "framework/runs/threads.h"
#include "framework/runs/tracker.h"
#include "framework/runs/training_run.h"
#include "framework/settings/run_config.h"
#include "framework/tasks/task.h"
#include "framework/train/trainer.h"

namespace longspan {

// What stays when a run goes back (rollback.h) and another one goes on from what it saved.
struct RestartState {
  ConfigPath resume_request = {};              // the user's own checkpoint.resume_from
  std::optional<RunDirectory> directory = {};  // its lock is held all the time
  std::string diverged = {};                   // why it went back; empty where it has not
};

// What a run is given: all of it outlives the run.
struct RunInputs {
  Session& session;
  const RunConfig& settings;
  const TrainingRunText& text;
  const TrainingHooks& hooks;
  const StopRequest& stop_request;
  RestartState& life;
};

// And what it makes of it: the parts, in the order in which they need one another.
struct TrainingContext : RunInputs {
  // Collective, and throws the same on every rank. Sets the threads and the time limit of the run,
  // and refuses what the memory cannot hold before anything of it is allocated.
  explicit TrainingContext(const RunInputs& inputs);
  TrainingContext(const TrainingContext&) = delete;
  TrainingContext& operator=(const TrainingContext&) = delete;

  bool is_root() const { return mesh.world.rank() == 0; }
  bool should_stop() const {
    return stop_request.requested() || (hooks.should_stop && hooks.should_stop());
  }
  DataSizes ids() const;
  RunLayout layout() const;
  ResumeContext resuming() const;

  std::int64_t program_bytes = process_memory().now;  // before any of it was made
  ProcessMesh mesh;
  std::int64_t threads;  // of the rank that has most: nodes may differ
  SpinControl spinning;
  Device device;
  GpuCollectives collectives;
  RunDirectory& directory;
  Console console;
  Log log;
  Profiler profiler;
  Tracker tracker;
  std::unique_ptr<Task> task;
  Trainer trainer;
  BatchLoader loader;
  Progress progress;
  CheckpointSaver saver;
  ThroughputMeter speed;
};

}  // namespace longspan
