#include "framework/config/run_options.h"

#include "framework/options/options.h"

namespace longspan {
namespace {

// How a job of that many ranks is started.
std::string start_on(std::int64_t ranks) {
  return fmt::format(
      "start it with \"longspan run -n {0} -- ...\" or \"mpirun -n {0} longspan ...\"", ranks);
}

// Where else the numbers of metrics.jsonl go.
void declare_boards(OptionTable& table, MetricsOptions& options) {
  constexpr int most_ports = 65535;
  table.add("metrics.enable_tensorboard",
            options.tensorboard,
            "also write what TensorBoard shows, into tensorboard/ of run.output_dir");
  table.add("metrics.histogram_interval",
            options.histograms,
            "steps between histograms of each weight and of its gradient for TensorBoard; 0: none",
            at_least(0));
  table.add("metrics.num_images",
            options.images,
            "images that a model of run.task: image_generation draws for TensorBoard every "
            "training.validation.interval steps and in the end; 0: none",
            between(0, 1000));
  table.add("metrics.export",
            options.exports,
            "services for which the numbers go into export/wandb.jsonl and export/mlflow.jsonl of "
            "run.output_dir, as a few lines of Python hand them to Weights & Biases and MLflow; "
            "launch/README.md has these lines",
            one_of({"wandb", "mlflow"}));
  table.add("metrics.prometheus_port",
            options.prometheus_port,
            "the port at which Prometheus can fetch the newest numbers; 0: none",
            between(0, most_ports));
  table.add("metrics.prometheus_address",
            options.prometheus_address,
            "the address of the first rank's machine to listen at; 0.0.0.0: all that it has",
            not_empty());
  const auto without_board = [&options]() -> std::string {
    return options.tensorboard ? "" : "metrics.enable_tensorboard is false";
  };
  table.warn("metrics.histogram_interval", without_board);
  table.warn("metrics.num_images", without_board);
  table.warn("metrics.prometheus_address", [&options]() -> std::string {
    return options.prometheus_port > 0 ? "" : "metrics.prometheus_port is 0";
  });
}

}  // namespace

void declare(OptionTable& table, RunOptions& options) {
  table.add("run.output_dir",
            options.directory,
            "where the run writes: config.yaml, metrics.jsonl, log.txt and checkpoints/",
            required(),
            not_empty());
  table.add("run.seed",
            options.seed,
            "seed of every random number; the layout does not matter",
            at_least(0));
  table.add(
      "run.num_threads",
      options.threads,
      "threads of each rank; 0: as OMP_NUM_THREADS says, or the cores divided by the ranks of the "
      "machine",
      between(0, most_threads));
  table.add(
      "run.device",
      options.device,
      "what computes: cuda, a GPU for each rank of a machine in turn; cpu; or auto, a GPU where "
      "there is one with its driver and else the CPU",
      {{"auto", DeviceChoice::automatic},
       {"cpu", DeviceChoice::cpu},
       {"cuda", DeviceChoice::cuda}});
  table.add("run.collective_timeout_seconds",
            options.time_limit,
            "seconds that a collective may take before the job is given up as hung",
            more_than(0.0),
            at_most(1e6));
  table.add("run.log_level",
            options.log_level,
            "the least important messages to show",
            {{"debug", LogLevel::debug},
             {"info", LogLevel::info},
             {"warning", LogLevel::warning},
             {"error", LogLevel::error}});
}

void declare(OptionTable& table, ParallelOptions& options) {
  constexpr int most = 1 << 20;
  table.add("parallel.data_parallel_size",
            options.data,
            "ranks that share the batch; none: all ranks, divided by the other axes",
            between(1, most));
  table.add("parallel.tensor_parallel_size",
            options.tensor,
            "ranks that share each layer's weights",
            between(1, most));
  table.add("parallel.context_parallel_size",
            options.context,
            "ranks that share each sequence: each reads a piece from either end of a segment",
            between(1, most));
  table.add("parallel.sequence_parallel",
            options.sequence,
            "tensor ranks also share the time of activations outside of the split layers");
  table.add("parallel.zero_stage",
            options.zero,
            "what the ranks that hold the same weights share out: 0 nothing, 1 the optimizer's "
            "state and the float32 weights behind bfloat16 and float16, 2 the gradients too",
            between(0, 2));
  table.add(
      "parallel.gpu_backend",
      options.transport,
      "what carries tensors between GPUs: nccl, of which each rank needs a GPU of its own; mpi, "
      "through memory of the host; or auto, NCCL where every rank has a GPU of its own and the "
      "library is there",
      {{"auto", GpuTransport::automatic},
       {"nccl", GpuTransport::nccl},
       {"mpi", GpuTransport::mpi}});
  table.check({"parallel.sequence_parallel"}, [&options] {
    return !options.sequence || options.tensor > 1
               ? ""
               : "parallel.sequence_parallel: found true with parallel.tensor_parallel_size 1; it "
                 "divides "
                 "activations over the tensor ranks, of which it needs at least 2";
  });
}

void declare(OptionTable& table, CheckpointOptions& options) {
  table.add("checkpoint.save_interval",
            options.every,
            "steps between checkpoints; 0: only when the run ends",
            at_least(0));
  table.add("checkpoint.keep_latest",
            options.keep_latest,
            "newest checkpoints that are kept",
            between(1, 1000000));
  table.add("checkpoint.best_metric",
            options.keep_best,
            "a figure of validation, such as loss, bleu or accuracy: the step whose validation is "
            "the best by it is saved and kept beside the newest ones, and evaluate and generate "
            "take it with --checkpoint best; empty: none");
  table.add("checkpoint.async_save",
            options.background,
            "copy the state and write the copy while training goes on, which takes as much memory "
            "of the host as the checkpoint has bytes; false: training waits for it");
  table.add("checkpoint.resume_from",
            options.resume,
            "auto: go on from the newest checkpoint of run.output_dir that verifies, if there is "
            "one; never: start anew; or a checkpoint: its path, the name or number of a step of "
            "run.output_dir, or another run, whose newest one is taken",
            not_empty());
}

void declare(OptionTable& table, MetricsOptions& options) {
  table.add(
      "metrics.log_interval", options.every, "steps between lines of metrics.jsonl", at_least(1));
  table.add(
      "metrics.console",
      options.console,
      "progress: a bar on a terminal and lines elsewhere (auto, bar), or lines everywhere (plain)",
      {{"auto", ConsoleKind::automatic}, {"plain", ConsoleKind::plain}, {"bar", ConsoleKind::bar}});
  table.add(
      "metrics.log_timing",
      options.timing,
      "write tokens_per_second, model_flops_utilisation, peak_memory_bytes and the seconds of "
      "a step and of its parts, which differ from run to run; without them metrics.jsonl "
      "repeats to the byte");
  table.add(
      "metrics.num_samples",
      options.samples,
      "texts that the model makes at each validation, for samples.jsonl and reports: of "
      "run.task: language_modeling continuations of as many passages of data.validation, evenly "
      "spaced, of translation what it makes of the first lines; 0: none",
      between(0, 1000));
  declare_boards(table, options);
}

MeshShape mesh_shape(const ParallelOptions& options, int ranks) {
  const std::int64_t others = options.tensor * options.context;
  if (options.data && *options.data * others != ranks) {
    throw ConfigurationError(
        "parallel.data_parallel_size {} x parallel.context_parallel_size {} x "
        "parallel.tensor_parallel_size {} is {} ranks; the job has {}; "
        "{}, or set them so that their product is {}",
        *options.data,
        options.context,
        options.tensor,
        *options.data * others,
        ranks,
        start_on(*options.data * others),
        ranks);
  }
  if (ranks % others != 0) {
    throw ConfigurationError(
        "the job has {} rank{}, which do not divide by parallel.context_parallel_size {} x "
        "parallel.tensor_parallel_size {}; "
        "{}, or set these to fewer",
        ranks,
        ranks == 1 ? "" : "s",
        options.context,
        options.tensor,
        start_on((ranks / others + 1) * others));
  }
  return {static_cast<int>(ranks / others),
          static_cast<int>(options.context),
          static_cast<int>(options.tensor),
          options.sequence};
}

}  // namespace longspan
