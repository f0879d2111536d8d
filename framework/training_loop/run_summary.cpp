#include "framework/training_loop/run_summary.h"

#include <algorithm>

#include "framework/core/format.h"
#include "framework/core/gpu.h"
#include "framework/kernels/matmul.h"

namespace longspan {
namespace {

// Warns about settings that slow down a run on the CPU.
void log_processor(const Log& log, const RunSummary& run) {
  const RunConfig& settings = run.settings;
  if (settings.run.device == DeviceChoice::automatic) {
    const std::vector<std::string> troubles = run.mesh.world.all_gather(gpu::unusable_reason());
    for (std::size_t rank = 0; rank < troubles.size(); ++rank)
      if (!troubles[rank].empty()) {
        log.warning("Training on the CPU: rank {}: {}", rank, troubles[rank]);
        break;
      }
  }
  if (settings.precision.compute == DType::bf16 && !bf16_is_native())
    log.warning("This CPU has no native bfloat16: emulating it in float32 (slower)");
  if (settings.precision.compute == DType::f16)
    log.warning(
        "This CPU has no native float16: computing its matrix products in float32 (slower)");
}

}  // namespace

void log_run_summary(const Log& log, const RunSummary& run) {
  const RunConfig& settings = run.settings;
  const ProcessMesh& mesh = run.mesh;
  const Device& device = run.device;
  for (const std::string& sentence : run.warnings) log.warning("{}", sentence);
  const Parameters& parameters = run.parameters;
  log.info(
      "{}: {} parameters, {} on data {} x context {} x tensor {}{}{} with {}; measured matmul peak "
      "{:.0f} GFLOP/s",
      settings.family,
      parameters.global_elements(),
      config_name_of(settings.precision.compute),
      mesh.shape.data,
      mesh.shape.context,
      mesh.shape.tensor,
      mesh.shape.sequence ? " (sequence parallel)" : "",
      parameters.sharing().zero > 0 ? fmt::format(", ZeRO {}", parameters.sharing().zero) : "",
      device.on_gpu() ? fmt::format("GPU {} on the first rank", device.state().gpu())
                      : pluralize(run.threads, "thread") + " per rank",
      run.peak / 1e9);
  if (const std::int64_t trained = parameters.trained_elements();
      trained != parameters.global_elements())
    log.info("{} trainable parameters, the rest are frozen", trained);
  log.info("{}", run.task.overview());
  for (const std::string& sentence : run.task.warnings()) log.warning("{}", sentence);
  if (device.on_gpu() && mesh.world.size() > 1)
    log.info("GPU collectives use {}",
             run.collectives.nccl()
                 ? "NCCL"
                 : "MPI through host memory: " + run.collectives.unavailable_reason());
  const bool shares_out = std::ranges::any_of(
      parameters.buckets(), [](const ParameterBucket& bucket) { return bucket.ranks.size() > 1; });
  if (parameters.sharing().zero > 0 && !shares_out)
    log.warning("parallel.zero_stage {} has no effect: no two ranks hold the same weights",
                parameters.sharing().zero);
  if (!device.on_gpu()) log_processor(log, run);
}

void log_nothing_to_train(const Log& log, std::int64_t steps, std::int64_t wanted) {
  log.info(
      "Nothing to train: the run is already at step {}, {} training.max_steps = {}. Set "
      "training.max_steps to more than {} to continue.",
      steps,
      steps > wanted ? "past" : "equal to",
      wanted,
      steps);
}

}  // namespace longspan
