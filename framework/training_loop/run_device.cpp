#include "framework/training_loop/run_device.h"

#include "framework/core/gpu.h"

namespace longspan {

Device run_device(const RunOptions& run,
                  const PrecisionOptions& precision,
                  const Communicator& world,
                  int local_rank) {
  if (run.device == DeviceChoice::cpu) return Device::cpu();
  const std::vector<int> gpus = gpu::usable();
  if (gpus.empty() && run.device == DeviceChoice::cuda)
    throw ConfigurationError("run.device: cuda is not available: {}", gpu::unavailable_reason());
  if (world.all_reduce(std::int64_t{!gpus.empty()}, Reduction::minimum) == 0) return Device::cpu();
  const Device device = Device::cuda(gpus[static_cast<std::size_t>(local_rank) % gpus.size()]);
  device.state().set_tf32(precision.tf32);
  return device;
}

}  // namespace longspan
