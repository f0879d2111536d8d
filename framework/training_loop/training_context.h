// What a training run is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "framework/config/run_config.h"
#include "framework/data/batch_loader.h"
#include "framework/distributed/gpu_collectives.h"
#include "framework/distributed/session.h"
#include "framework/tasks/task.h"
#include "framework/trainer/trainer.h"
#include "framework/training_loop/checkpoint_saver.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/memory_table.h"
#include "framework/training_loop/profiler.h"
#include "framework/training_loop/progress.h"
#include "framework/training_loop/resume.h"
#include "framework/training_loop/run_directory.h"
#include "framework/training_loop/run_speed.h"
#include "framework/training_loop/stop_request.h"
#include "framework/training_loop/threads.h"
#include "framework/training_loop/tracker.h"
#include "framework/training_loop/training_run.h"

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
