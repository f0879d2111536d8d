// The sections run, parallel, checkpoint and metrics of a configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/distributed/gpu_collectives.h"

namespace longspan {

class OptionTable;

enum class LogLevel : std::uint8_t { debug, info, warning, error };
enum class DeviceChoice : std::uint8_t { automatic, cpu, cuda };

inline constexpr int max_threads = 4096;  // per rank

struct RunOptions {
  ConfigPath directory;      // run.output_dir: output directory of the run
  std::int64_t seed = 1;     // run.seed
  std::int64_t threads = 0;  // run.num_threads: per rank; 0: its share of the cores
  DeviceChoice device = DeviceChoice::automatic;  // run.device
  double time_limit = 300;  // run.collective_timeout_seconds: limit of a collective, in seconds
  LogLevel log_level = LogLevel::info;  // run.log_level
};

struct ParallelOptions {
  std::optional<std::int64_t> data;  // parallel.data_parallel_size; none: the remaining ranks
  std::int64_t tensor = 1;           // parallel.tensor_parallel_size
  std::int64_t context = 1;          // parallel.context_parallel_size
  bool sequence = false;             // parallel.sequence_parallel
  std::int64_t zero = 0;             // parallel.zero_stage
  GpuTransport transport = GpuTransport::automatic;  // parallel.gpu_backend: for tensors on GPUs
};

struct CheckpointOptions {
  std::int64_t every = 500;      // checkpoint.save_interval: steps; 0: only at the end of the run
  std::int64_t keep_latest = 3;  // checkpoint.keep_latest
  std::string keep_best = {};    // checkpoint.best_metric: a validation metric; empty: none
  bool background = true;        // checkpoint.async_save: written while training continues
  ConfigPath resume = "auto";    // checkpoint.resume_from: auto, never, or a checkpoint
};

enum class ConsoleKind : std::uint8_t { automatic, plain, bar };

struct MetricsOptions {
  std::int64_t every = 10;                       // metrics.log_interval: steps
  ConsoleKind console = ConsoleKind::automatic;  // metrics.console
  // metrics.log_timing: also write values that differ between runs (speed, memory, seconds).
  // Without it metrics.jsonl of a resumed run is byte-identical to that of an uninterrupted run.
  bool timing = true;
  std::int64_t samples = 0;                      // metrics.num_samples: sample texts per validation
  bool tensorboard = false;                      // metrics.enable_tensorboard
  std::int64_t histograms = 0;                   // metrics.histogram_interval: steps; 0: none
  std::int64_t images = 0;                       // metrics.num_images: images at a time; 0: none
  std::vector<std::string> exports = {};         // metrics.export: wandb, mlflow
  std::int64_t prometheus_port = 0;              // metrics.prometheus_port; 0: none
  std::string prometheus_address = "127.0.0.1";  // metrics.prometheus_address
};

void declare(OptionTable& table, RunOptions& options);
void declare(OptionTable& table, ParallelOptions& options);
void declare(OptionTable& table, CheckpointOptions& options);
void declare(OptionTable& table, MetricsOptions& options);

// Returns the mesh for a job of `ranks` ranks. Throws ConfigurationError if the sizes do not fit.
MeshShape mesh_shape(const ParallelOptions& options, int ranks);

}  // namespace longspan
