#include "framework/config/run_options.h"

#include "framework/core/format.h"
#include "framework/options/options.h"

namespace longspan {
namespace {

// Returns how to start a job of `ranks` ranks.
std::string start_on(std::int64_t ranks) {
  return fmt::format("run \"longspan launch -n {0} -- ...\" or \"mpirun -n {0} longspan ...\"",
                     ranks);
}

// Declares additional outputs of the metrics.
void declare_boards(OptionTable& table, MetricsOptions& options) {
  constexpr int max_ports = 65535;
  table.add("metrics.enable_tensorboard",
            options.tensorboard,
            "TensorBoard event files in tensorboard/ of run.output_dir");
  table.add("metrics.histogram_interval",
            options.histograms,
            "steps between TensorBoard histograms of each weight and its gradient; 0: none",
            at_least(0),
            only_with(is("metrics.enable_tensorboard", {"true"})));
  table.add("metrics.num_images",
            options.images,
            "number of images generated for TensorBoard every training.validation.interval steps "
            "and at the end; 0: none",
            between(0, 1000),
            only_with(is("run.task", {"image_generation"})),
            only_with(is("metrics.enable_tensorboard", {"true"})));
  table.add("metrics.export",
            options.exports,
            "services for which metrics are written to export/wandb.jsonl and export/mlflow.jsonl "
            "of run.output_dir; launch/README.md has the Python lines that pass them to Weights & "
            "Biases and MLflow",
            one_of({"wandb", "mlflow"}));
  table.add("metrics.prometheus_port",
            options.prometheus_port,
            "port of the Prometheus endpoint with the newest metrics; 0: none",
            between(0, max_ports));
  table.add("metrics.prometheus_address",
            options.prometheus_address,
            "address on the first rank's machine that the Prometheus endpoint listens on; 0.0.0.0: "
            "all addresses",
            not_empty(),
            only_with(is_above("metrics.prometheus_port", 0)));
}

}  // namespace

void declare(OptionTable& table, RunOptions& options) {
  table.add("run.output_dir",
            options.directory,
            "directory of the run's outputs: config.yaml, metrics.jsonl, log.txt and checkpoints/",
            required(),
            not_empty());
  table.add(
      "run.seed", options.seed, "random seed, independent of the parallel layout", at_least(0));
  table.add(
      "run.num_threads",
      options.threads,
      "CPU threads per rank; 0: OMP_NUM_THREADS, or the cores divided by the ranks of the machine",
      between(0, max_threads));
  table.add(
      "run.device",
      options.device,
      "compute device: auto (cuda where a GPU and its driver are present, otherwise cpu), cpu or "
      "cuda (GPUs assigned to the ranks of a machine in turn)",
      {{"auto", DeviceChoice::automatic},
       {"cpu", DeviceChoice::cpu},
       {"cuda", DeviceChoice::cuda}});
  table.add("run.collective_timeout_seconds",
            options.time_limit,
            "timeout of a collective in seconds, after which the job is aborted as hung",
            more_than(0.0),
            at_most(1e6));
  table.add("run.log_level",
            options.log_level,
            "minimum severity of the messages shown",
            {{"debug", LogLevel::debug},
             {"info", LogLevel::info},
             {"warning", LogLevel::warning},
             {"error", LogLevel::error}});
}

void declare(OptionTable& table, ParallelOptions& options) {
  constexpr int most = 1 << 20;
  table.add("parallel.data_parallel_size",
            options.data,
            "number of data-parallel ranks, which share the batch; none: all ranks divided by the "
            "other sizes",
            between(1, most));
  table.add("parallel.tensor_parallel_size",
            options.tensor,
            "number of tensor-parallel ranks, which shard the weights of each layer",
            between(1, most));
  table.add("parallel.context_parallel_size",
            options.context,
            "number of context-parallel ranks, which shard each sequence: every rank has two "
            "chunks of it, one from each half, for equal work under a causal mask",
            between(1, most));
  table.add("parallel.sequence_parallel",
            options.sequence,
            "sharding of activations outside the tensor-parallel layers along the sequence",
            needs(is_above("parallel.tensor_parallel_size", 1)));
  table.add("parallel.zero_stage",
            options.zero,
            "ZeRO stage, for ranks that hold the same weights: 0 (nothing is sharded), 1 "
            "(optimizer state and the float32 master weights of bfloat16 and float16) or 2 (also "
            "gradients)",
            between(0, 2));
  table.add(
      "parallel.gpu_backend",
      options.transport,
      "backend of communication between GPUs: nccl (requires a GPU per rank), mpi (through host "
      "memory) or auto (nccl where every rank has its own GPU and the library is present, "
      "otherwise mpi)",
      {{"auto", GpuTransport::automatic},
       {"nccl", GpuTransport::nccl},
       {"mpi", GpuTransport::mpi}});
}

void declare(OptionTable& table, CheckpointOptions& options) {
  table.add("checkpoint.save_interval",
            options.every,
            "steps between checkpoints; 0: only at the end of the run",
            at_least(0));
  table.add("checkpoint.keep_latest",
            options.keep_latest,
            "number of newest checkpoints retained",
            between(1, 1000000));
  table.add("checkpoint.best_metric",
            options.keep_best,
            "validation metric (loss, bleu, accuracy) whose best checkpoint is also retained, for "
            "--checkpoint best of evaluate and generate; empty: none");
  table.add("checkpoint.async_save",
            options.background,
            "copy of the state that is written in the background, in as much host memory as the "
            "checkpoint has bytes; false: training waits");
  table.add("checkpoint.resume_from",
            options.resume,
            "checkpoint to resume from: auto (the newest valid one of run.output_dir, if any), "
            "never, a path, the name or number of a step of run.output_dir, or another run (its "
            "newest checkpoint)",
            not_empty());
}

void declare(OptionTable& table, MetricsOptions& options) {
  table.add(
      "metrics.log_interval", options.every, "steps between lines of metrics.jsonl", at_least(1));
  table.add(
      "metrics.console",
      options.console,
      "progress display: auto or bar (a bar on a terminal, lines elsewhere) or plain (lines "
      "everywhere)",
      {{"auto", ConsoleKind::automatic}, {"plain", ConsoleKind::plain}, {"bar", ConsoleKind::bar}});
  table.add(
      "metrics.log_timing",
      options.timing,
      "logging of tokens_per_second, mfu, peak_memory_bytes and the seconds of each step and its "
      "phases, which differ between runs; false: metrics.jsonl is bitwise reproducible");
  table.add(
      "metrics.num_samples",
      options.samples,
      "number of generated samples per validation, for samples.jsonl and reports: continuations of "
      "evenly spaced passages of data.validation, or translations of its first lines; 0: none",
      between(0, 1000),
      only_with(is("run.task", {"language_modeling", "translation"})));
  declare_boards(table, options);
}

MeshShape mesh_shape(const ParallelOptions& options, int ranks) {
  const std::int64_t others = options.tensor * options.context;
  if (options.data && *options.data * others != ranks) {
    throw ConfigurationError(
        "parallel.data_parallel_size {} x parallel.context_parallel_size {} x "
        "parallel.tensor_parallel_size {}: expected {}, found {}; {}, or set these keys to a "
        "product of {}",
        *options.data,
        options.context,
        options.tensor,
        pluralize(*options.data * others, "rank"),
        ranks,
        start_on(*options.data * others),
        ranks);
  }
  if (ranks % others != 0) {
    throw ConfigurationError(
        "expected a multiple of {} (parallel.context_parallel_size {} x "
        "parallel.tensor_parallel_size {}), found {}; {}, or reduce these keys",
        pluralize(others, "rank"),
        options.context,
        options.tensor,
        ranks,
        start_on((ranks / others + 1) * others));
  }
  return {static_cast<int>(ranks / others),
          static_cast<int>(options.context),
          static_cast<int>(options.tensor),
          options.sequence};
}

}  // namespace longspan
