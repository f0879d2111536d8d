#include "framework/train/run_device.h"

#include "framework/core/gpu.h"

namespace longspan {

Device run_device(const RunOptions& run, const PrecisionOptions& precision, int local_rank) {
  const int gpus = run.device == DeviceChoice::cpu ? 0 : gpu::count();
  if (gpus == 0) {
    if (run.device == DeviceChoice::cuda)
      throw ConfigurationError("run.device is cuda, but {}", gpu::absence());
    return Device::cpu();
  }
  const Device device = Device::cuda(local_rank % gpus);
  device.state().set_tf32(precision.tf32);
  return device;
}

}  // namespace longspan
