#include "framework/core/async_copy.h"

#include <utility>

#include "framework/core/gpu.h"

namespace longspan {

void PendingCopies::retain_source(const Tensor& source) {
  const std::lock_guard lock(mutex_);
  sources_.push_back(source);
}

std::vector<Tensor> PendingCopies::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(sources_, {});
}

Tensor copy_async(const Tensor& tensor, const Device& device, MemoryTag tag) {
  const bool queues = device.state().in_gpu_memory() && tensor.device() == device.host();
  if (!queues) return tensor.to(device, tag);
  const Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype(), device, tag);
  gpu::copy(copy.bytes(), tensor.bytes(), tensor.byte_size(), device.state().cuda().stream);
  device.state().get_or_create<PendingCopies>().retain_source(tensor);
  return copy;
}

}  // namespace longspan
