// Devices: allocators, streams and counters of tensors and kernels.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <typeindex>

#include "framework/core/allocator.h"
#include "framework/core/error.h"

struct CUstream_st;  // CUDA's stream

namespace longspan {

class DeviceState;

// The first argument of every CPU kernel.
struct Cpu {
  DeviceState* state;
};

// The first argument of every CUDA kernel: its work is queued on the stream.
struct Cuda {
  DeviceState* state;
  CUstream_st* stream;
};

// The processor that kernels run on.
enum class Processor : std::uint8_t { cpu, gpu };

// State of one device, so that nothing is global: its allocator, and objects that kernels cache
// across calls (primitives per shape, scratch). A cached object may own memory of the allocator,
// but no tensor: a tensor would own the device.
class DeviceState {
 public:
  // `gpu`: the GPU's index, where memory is a GPU's or pinned for it.
  DeviceState(Processor processor, AllocatorKind backing, int gpu = 0);
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;
  ~DeviceState();

  // Returns whether the device is dry: nothing is computed.
  bool is_meta() const { return allocator_.backing() == AllocatorKind::address_space; }
  Processor processor() const { return processor_; }
  // Returns whether kernels are CUDA kernels.
  bool on_gpu() const { return processor_ == Processor::gpu; }
  // Returns whether memory is a GPU's: on_gpu() and not dry.
  bool in_gpu_memory() const { return allocator_.backing() == AllocatorKind::gpu; }
  Allocator& allocator() { return allocator_; }
  // Returns the GPU's kernel argument, and makes it the current GPU of the calling thread. A dry
  // GPU has no stream.
  Cuda cuda();
  CUstream_st* stream() const { return stream_; }
  int gpu() const { return allocator_.gpu(); }
  // Blocks until all work queued on a GPU is done.
  void wait();
  // Replaces the calling thread's blocking wait from here on; empty restores it.
  using Waiting = std::function<void(CUstream_st*)>;
  void set_wait_hook(Waiting waiting);

  // Whether a GPU may round the inputs of float32 matrix products to TF32.
  bool tf32() const { return tf32_; }
  void set_tf32(bool tf32) { tf32_ = tf32; }

  // FLOPs that matrix products and attention would have performed on a dry device.
  double flops() const { return flops_; }
  void count_flops(double flops) { flops_ += flops; }

  // Returns the device's single `T`, created on first use. A kernel uses its own type, which must
  // synchronize internally.
  template <typename T>
  T& get_or_create() {
    const std::lock_guard lock(mutex_);
    auto& slot = kept_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

 private:
  friend class Device;

  const Processor processor_;
  Allocator allocator_;
  CUstream_st* stream_ = nullptr;      // of a GPU
  std::shared_ptr<DeviceState> host_;  // of a GPU: pinned memory, or as dry as this
  struct WaitingThread;
  std::unique_ptr<const WaitingThread> waiting_;  // null: no wait hook set
  bool tf32_ = false;
  double flops_ = 0;
  std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> kept_;
};

// A value type: copies refer to the same device.
class Device {
 public:
  // Returns a CPU device with its own allocator and counters.
  static Device cpu() {
    return Device(std::make_shared<DeviceState>(Processor::cpu, AllocatorKind::memory));
  }
  // Returns a dry device: nothing is computed and no memory is used. Tensors are addresses with
  // undefined contents. It counts the bytes that a step would allocate and send on such a
  // processor, which need not exist. On a dry CPU only kernels with counted scratch are called. On
  // a dry GPU all kernels are called and allocate scratch, but launch nothing. A build without CUDA
  // substitutes the CPU kernels.
  static Device meta(Processor processor = Processor::cpu);

  // Returns a GPU of this machine with its own allocator and stream. Queued work runs in order;
  // copies to and from the host wait for it. Throws ConfigurationError where there is no such GPU.
  static Device cuda(int index = 0);

  Allocator& allocator() const { return state_->allocator(); }
  DeviceState& state() const { return *state_; }
  Processor processor() const { return state_->processor(); }
  bool on_gpu() const { return state_->on_gpu(); }
  // Returns the CPU device for host access to this device's data: pinned memory, for fast copies,
  // where this is a GPU, else the device itself.
  Device host() const { return state_->host_ ? Device(state_->host_) : *this; }
  // Blocks until all queued work is done.
  void synchronize() const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  explicit Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {}

  std::shared_ptr<DeviceState> state_;
};

// Calls f, which accesses tensors of `device` from the host. Does nothing on a dry device. Throws
// Failure on a GPU.
template <typename F>
void dispatch_on_host(const Device& device, F&& f) {
  if (device.state().is_meta()) return;
  require(!device.on_gpu(), "the host cannot access GPU memory");
  f();
}

// The redundant part of DeviceState::flops() of a dry device. Counts recomputation, as of the
// scores in attention's backward pass, and results that nothing reads.
struct RedundantFlops {
  double flops = 0;
};
// Counts the operations of a kernel on a dry device, of which `needed` are not redundant.
inline void count_flops(const Device& device, double made, double needed) {
  if (!device.state().is_meta()) return;
  device.state().count_flops(made);
  device.state().get_or_create<RedundantFlops>().flops += made - needed;
}

// Attribute of a dry device: whether only FLOPs are counted. Attention then builds no tile lists,
// which would not fit in memory for very long sequences, and allocates no scratch.
struct FlopsOnlyMode {
  bool wanted = false;
};

}  // namespace longspan
