#include "framework/training_loop/run_summary.h"

#include <algorithm>

#include "framework/core/gpu.h"
#include "framework/kernels/matmul.h"

namespace longspan {
namespace {

// What makes a run on the CPU slower than it could be.
void tell_of_processor(const Log& log, const RunSummary& run) {
  const RunConfig& settings = run.settings;
  if (settings.run.device == DeviceChoice::automatic) {
    const std::vector<std::string> troubles = run.mesh.world.all_gather(gpu::unusable_reason());
    for (std::size_t rank = 0; rank < troubles.size(); ++rank)
      if (!troubles[rank].empty()) {
        log.warning("this trains on the CPU, since on rank {} {}", rank, troubles[rank]);
        break;
      }
  }
  if (settings.precision.compute == DType::bf16 && !bf16_is_native())
    log.warning("this CPU has no native bfloat16: it is emulated in float32, which is slower");
  if (settings.precision.compute == DType::f16)
    log.warning(
        "float16 is emulated on the CPU: its matrix products are computed in float32, which is "
        "slower");
}

}  // namespace

void log_run_summary(const Log& log, const RunSummary& run) {
  const RunConfig& settings = run.settings;
  const ProcessMesh& mesh = run.mesh;
  const Device& device = run.device;
  for (const std::string& sentence : run.warnings) log.warning("{}", sentence);
  const Parameters& parameters = run.parameters;
  log.info("{}: {} parameters, {} on data {} x context {} x tensor {}{}{} with {}",
           settings.family,
           parameters.global_elements(),
           name_of(settings.precision.compute),
           mesh.shape.data,
           mesh.shape.context,
           mesh.shape.tensor,
           mesh.shape.sequence ? " (which share time)" : "",
           parameters.sharing().zero > 0 ? fmt::format(", ZeRO {}", parameters.sharing().zero) : "",
           device.on_gpu() ? fmt::format("GPU {} on the first rank", device.state().gpu())
                           : fmt::format("{} threads a rank", run.threads));
  if (const std::int64_t trained = parameters.trained_elements();
      trained != parameters.global_elements())
    log.info("{} parameters are trained, the others stay as they are", trained);
  log.info("{}; matrix products reach {:.0f} GFLOP/s", run.task.overview(), run.peak / 1e9);
  for (const std::string& sentence : run.task.warnings()) log.warning("{}", sentence);
  if (device.on_gpu() && mesh.world.size() > 1)
    log.info("tensors travel between GPUs {}",
             run.collectives.nccl()
                 ? "by NCCL"
                 : "through memory of the host: " + run.collectives.unavailable_reason());
  const bool shares_out = std::ranges::any_of(
      parameters.buckets(), [](const ParameterBucket& bucket) { return bucket.ranks.size() > 1; });
  if (parameters.sharing().zero > 0 && !shares_out)
    log.warning(
        "parallel.zero_stage is {}, but no two ranks hold the same weights: there is nothing to "
        "share "
        "out",
        parameters.sharing().zero);
  if (!device.on_gpu()) tell_of_processor(log, run);
}

void log_nothing_to_train(const Log& log, std::int64_t steps, std::int64_t wanted) {
  log.info(
      "nothing is left to train: the run is at step {}, {} training.max_steps = {}; set "
      "training.max_steps "
      "to more than {} to go on",
      steps,
      steps > wanted ? "past" : "which is",
      wanted,
      steps);
}

}  // namespace longspan
