// Components of a training run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "framework/config/run_config.h"
#include "framework/data/batch_loader.h"
#include "framework/distributed/gpu_collectives.h"
#include "framework/distributed/session.h"
#include "framework/planning/model_flops.h"
#include "framework/tasks/task.h"
#include "framework/trainer/trainer.h"
#include "framework/training_loop/checkpoint_saver.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/memory_report.h"
#include "framework/training_loop/profiler.h"
#include "framework/training_loop/progress.h"
#include "framework/training_loop/resume.h"
#include "framework/training_loop/run_device.h"
#include "framework/training_loop/run_directory.h"
#include "framework/training_loop/step_meter.h"
#include "framework/training_loop/step_metrics.h"
#include "framework/training_loop/stop_request.h"
#include "framework/training_loop/tracker.h"
#include "framework/training_loop/training_run.h"

namespace longspan {

// Measures the time of steps and the model FLOPs utilization of all ranks.
class ThroughputMeter {
 public:
  // `mesh` and `device` must outlive the meter.
  ThroughputMeter(const RunConfig& settings,
                  const DataSizes& ids,
                  const ProcessMesh& mesh,
                  const Device& device)
      : dtype_(settings.precision.compute),
        mesh_(mesh),
        device_(device),
        needed_flops_(settings, ids) {}

  // Measures the peak FLOP/s of all ranks, before the first step. Collective.
  double measure_peak();

  // Timers to which parts of a step's time are added.
  StepTimes& times() { return meter_.times(); }
  // Returns the model FLOPs of a batch on all ranks; 0 on all ranks but the first, which alone
  // reports it. `steps`: number of steps before it. `remembered`: positions of earlier batches that
  // its rows attend to.
  double flops_of(const Batch& batch, std::int64_t remembered, std::int64_t steps);
  void add(const StepCost& step) { meter_.add(step); }
  void reset() { meter_.reset(); }

  // Since the last reset.
  double tokens_per_second() const { return meter_.tokens_per_second(); }
  std::optional<double> utilization() const { return meter_.utilization(peak_); }
  // Over all steps.
  double seconds_a_step() const { return meter_.seconds_a_step(); }
  // Returns the metrics since the last reset, and resets. Collective.
  StepTiming timing();

 private:
  DType dtype_;
  const ProcessMesh& mesh_;
  const Device& device_;
  double peak_ = 0;
  ModelFlops needed_flops_;
  StepMeter meter_;
};

// State that survives a rollback (run_phases.h) and is passed to the run that resumes from the last
// save.
struct RestartState {
  ConfigPath resume_request = {};              // checkpoint.resume_from as set by the user
  std::optional<RunDirectory> directory = {};  // its lock is held throughout
  std::string diverged = {};                   // why the run rolled back; empty if it did not
};

// Inputs of a run. All of them must outlive it.
struct RunInputs {
  Session& session;
  const RunConfig& settings;
  const TrainingRunText& text;
  const TrainingHooks& hooks;
  const StopRequest& stop_request;
  RestartState& life;
};

// The run's components, in order of dependency.
struct TrainingContext : RunInputs {
  // Sets the threads and the time limit of the run. Rejects a run that does not fit in memory
  // before allocating any of it. Collective. Throws the same error on every rank.
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

  std::int64_t program_bytes = process_memory().now;  // before the run allocates anything
  ProcessMesh mesh;
  std::int64_t threads;  // of the rank with the most threads: nodes may differ
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
