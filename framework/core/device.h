// Where tensors live and kernels run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <typeindex>

#include "framework/core/allocator.h"
#include "framework/core/error.h"
#include "framework/core/span.h"

struct CUstream_st;  // CUDA's stream

namespace longspan {

class DeviceState;

// The first argument of every CPU kernel.
struct Cpu {
  DeviceState* state;
};

// The first argument of every CUDA kernel: what it does is queued on the stream.
struct Cuda {
  DeviceState* state;
  CUstream_st* stream;
};

// What kernels run on.
enum class Processor : std::uint8_t { cpu, gpu };

// What belongs to one device: its allocator, and what kernels keep there from call to call
// (primitives created once a shape, scratch), so that nothing is global. What is kept may hold
// memory of the allocator, but no tensor: that would hold the device.
class DeviceState {
 public:
  // `gpu`: which one, where memory is a GPU's or pinned for it.
  DeviceState(Processor processor, AllocatorKind backing, int gpu = 0);
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;
  ~DeviceState();

  // True when nothing is computed.
  bool is_meta() const { return allocator_.backing() == AllocatorKind::address_space; }
  Processor processor() const { return processor_; }
  // Whether kernels are CUDA's.
  bool on_gpu() const { return processor_ == Processor::gpu; }
  // The same, and not dry.
  bool in_gpu_memory() const { return allocator_.backing() == AllocatorKind::gpu; }
  Allocator& allocator() { return allocator_; }
  // Of a GPU, which the calling thread's CUDA calls are meant for from here on. A dry one has no
  // stream.
  Cuda cuda();
  CUstream_st* stream() const { return stream_; }
  int gpu() const { return allocator_.gpu(); }
  // Returns when all that was queued on a GPU is done.
  void wait();
  // How the calling thread waits from here on, instead of blocking; empty: as before.
  using Waiting = std::function<void(CUstream_st*)>;
  void set_wait_hook(Waiting waiting);

  // Whether a GPU may round the factors of float32 products to TF32.
  bool tf32() const { return tf32_; }
  void set_tf32(bool tf32) { tf32_ = tf32; }

  // Floating-point operations that matrix products and attention would have made on a dry device.
  double flops() const { return flops_; }
  void count_flops(double flops) { flops_ += flops; }

  // The device's one `T`, made on first use. A kernel names a type of its own and synchronises
  // inside it.
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
  std::unique_ptr<const WaitingThread> waiting_;  // null where nobody has said how to wait
  bool tf32_ = false;
  double flops_ = 0;
  std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> kept_;
};

// A value: copies name the same device.
class Device {
 public:
  // A CPU device with its own allocator and counts.
  static Device cpu() {
    return Device(std::make_shared<DeviceState>(Processor::cpu, AllocatorKind::memory));
  }
  // A device on which nothing is computed and no memory is taken: tensors are addresses, of
  // undefined contents. What a step would allocate and send on such a processor is counted as if it
  // had been made; it need not be there. Of the CPU's kernels those are called that take scratch
  // which counts; of a GPU's all are, and take their scratch, but start nothing; where the program
  // has no CUDA, the CPU's stand for them.
  static Device meta(Processor processor = Processor::cpu);

  // A GPU of this machine with an allocator and a stream of its own. What is queued there is done
  // in its order; copies to and from the host wait for it. Throws ConfigurationError where there is
  // no such GPU.
  static Device cuda(int index = 0);

  Allocator& allocator() const { return state_->allocator(); }
  DeviceState& state() const { return *state_; }
  Processor processor() const { return state_->processor(); }
  bool on_gpu() const { return state_->on_gpu(); }
  // A CPU device beside this one, which the host reads and writes, and whose tensors are quickly
  // copied: pinned memory where this is a GPU, else the device itself.
  Device host() const { return state_->host_ ? Device(state_->host_) : *this; }
  // Returns when all that was queued is done.
  void synchronize() const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  explicit Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {}

  std::shared_ptr<DeviceState> state_;
};

// Calls f with the backend of the device: every op goes through here. On a dry CPU f is not called,
// and a result is that of a default constructor; so f makes no tensors that outlast it, nor scratch
// that counts. `place`: whose computation it is.
template <typename F>
auto on(const Device& device,
        F&& f,
        const std::source_location& place = std::source_location::current()) {
  using Result = std::invoke_result_t<F, Cpu>;
  DeviceState& state = device.state();
#ifdef LONGSPAN_WITH_CUDA
  if (state.on_gpu()) {
    const Span span({.kind = ActivityKind::kernel, .place = place});
    return f(state.cuda());
  }
#endif
  if (state.is_meta()) return Result();
  const Span span({.kind = ActivityKind::kernel, .place = place});
  return f(Cpu{&state});
}

// The same for kernels whose scratch or work counts, matrix products and attention: they are called
// on a dry CPU too, take their scratch, count their operations and return before they compute.
template <typename F>
void dispatch_or_meta(const Device& device,
                      F&& f,
                      const std::source_location& place = std::source_location::current()) {
  const Span span({.kind = ActivityKind::kernel, .place = place});
#ifdef LONGSPAN_WITH_CUDA
  if (device.on_gpu()) return f(device.state().cuda());
#endif
  f(Cpu{&device.state()});
}

// Calls f, by which the host writes or reads tensors of `device`, which is no GPU; not on a dry
// device.
template <typename F>
void dispatch_on_host(const Device& device, F&& f) {
  if (device.state().is_meta()) return;
  require(!device.on_gpu(), "memory of a GPU was to be written or read by the host");
  f();
}

}  // namespace longspan
