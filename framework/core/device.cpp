#include "framework/core/device.h"

#include <algorithm>
#include <thread>

#include "framework/core/async_copy.h"
#include "framework/core/gpu.h"
#include "framework/core/span.h"

namespace longspan {

struct DeviceState::WaitingThread {
  std::thread::id thread;
  Waiting wait;
};

DeviceState::DeviceState(Processor processor, AllocatorKind backing, int gpu)
    : processor_(processor), allocator_(backing, gpu) {
  if (!on_gpu()) return;
  if (in_gpu_memory()) stream_ = gpu::make_stream(gpu);
  host_ = std::make_shared<DeviceState>(
      Processor::cpu, in_gpu_memory() ? AllocatorKind::pinned : backing, gpu);
}

DeviceState::~DeviceState() {
  try {
    if (in_gpu_memory()) gpu::select(gpu());
  } catch (const Failure&) {
    // The GPU is lost: its memory cannot be freed.
  }
  kept_.clear();  // cached objects may use the stream and own memory
  if (stream_ != nullptr) gpu::destroy_stream(gpu(), stream_);
}

Cuda DeviceState::cuda() {
  if (in_gpu_memory()) gpu::select(gpu());
  return {this, stream_};
}

Device Device::meta(Processor processor) {
  return Device(std::make_shared<DeviceState>(processor, AllocatorKind::address_space));
}

Device Device::cuda(int index) {
  if (std::ranges::count(gpu::usable(), index) == 0)
    throw ConfigurationError("no such GPU: {}; {}", index, gpu::unavailable_reason());
  return Device(std::make_shared<DeviceState>(Processor::gpu, AllocatorKind::gpu, index));
}

void DeviceState::wait() {
  if (!in_gpu_memory()) return;
  PendingCopies& copies = get_or_create<PendingCopies>();
  const std::vector<Tensor> copied = copies.take();
  CUstream_st* const stream = cuda().stream;
  const Span span({.kind = ActivityKind::idle, .name = "the GPU"});
  try {
    if (waiting_ && std::this_thread::get_id() == waiting_->thread)
      waiting_->wait(stream);
    else
      gpu::wait(stream);
  } catch (...) {
    // The copies may still be pending.
    for (const Tensor& source : copied) copies.retain_source(source);
    throw;
  }
}

void DeviceState::set_wait_hook(Waiting waiting) {
  waiting_ = waiting ? std::make_unique<const WaitingThread>(
                           WaitingThread{std::this_thread::get_id(), std::move(waiting)})
                     : nullptr;
}

void Device::synchronize() const { state_->wait(); }

}  // namespace longspan
