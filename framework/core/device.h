// Where tensors live and kernels run.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <typeindex>

#include "framework/core/allocator.h"

struct CUstream_st;  // CUDA's stream

namespace longspan {

// What belongs to one device: its allocator, and what kernels keep there from call to call
// (primitives created once a shape, scratch), so that nothing is global.
class DeviceState {
 public:
  explicit DeviceState(Backing backing) : allocator_(backing) {}

  // True when kernels do nothing but take their scratch.
  bool dry() const { return allocator_.backing() == Backing::address_space; }
  Allocator& allocator() { return allocator_; }

  // Floating-point operations that matrix products and attention would have made on a dry device.
  double flops() const { return flops_; }
  void count_flops(double flops) { flops_ += flops; }

  // The device's one `T`, made on first use. A kernel names a type of its own and synchronises
  // inside it.
  template <typename T>
  T& kept() {
    const std::lock_guard lock(mutex_);
    auto& slot = kept_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

 private:
  Allocator allocator_;
  double flops_ = 0;
  std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> kept_;
};

// The first argument of every CPU kernel.
struct Cpu {
  DeviceState* state;
};

// The first argument of every CUDA kernel: what it does is queued on the stream.
struct Cuda {
  DeviceState* state;
  CUstream_st* stream;
};

// A value: copies name the same device.
class Device {
 public:
  // A CPU device with its own allocator and counts.
  static Device cpu() { return Device(std::make_shared<DeviceState>(Backing::memory)); }
  // A CPU device on which nothing is computed and no memory is taken: tensors are addresses, of
  // undefined contents, and kernels are not called. What a step would allocate and send is counted
  // as if it had been made.
  static Device dry() { return Device(std::make_shared<DeviceState>(Backing::address_space)); }

  Allocator& allocator() const { return state_->allocator(); }
  DeviceState& state() const { return *state_; }

  friend bool operator==(const Device&, const Device&) = default;

 private:
  explicit Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {}

  std::shared_ptr<DeviceState> state_;
};

// Calls f with the backend of the device: every op goes through here, and so does what the host
// writes into large tensors. On a dry device f is not called, and a result is that of a default
// constructor; so f makes no tensors that outlast it, nor scratch that counts.
template <typename F>
auto on(const Device& device, F&& f) {
  using Result = std::invoke_result_t<F, Cpu>;
  if constexpr (std::is_void_v<Result>) {
    if (!device.state().dry()) f(Cpu{&device.state()});
  } else {
    return device.state().dry() ? Result{} : f(Cpu{&device.state()});
  }
}

// The same for kernels whose scratch or work counts, matrix products and attention: they are called
// on a dry device too, take their scratch, count their operations and return before they compute.
template <typename F>
void on_or_dry(const Device& device, F&& f) {
  f(Cpu{&device.state()});
}

}  // namespace longspan
