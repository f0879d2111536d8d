// Where tensors live and kernels run.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <typeindex>

#include "framework/core/allocator.h"

namespace longspan {

// What belongs to one device: its allocator, and what kernels keep there from call to call
// (primitives created once a shape, scratch), so that nothing is global.
class DeviceState {
 public:
  Allocator& allocator() { return allocator_; }

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
  std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> kept_;
};

// The first argument of every CPU kernel.
struct Cpu {
  DeviceState* state;
};

// A value: copies name the same device.
class Device {
 public:
  // A CPU device with its own allocator and counts.
  static Device cpu() { return Device(std::make_shared<DeviceState>()); }

  Allocator& allocator() const { return state_->allocator(); }
  DeviceState& state() const { return *state_; }

  friend bool operator==(const Device&, const Device&) = default;

 private:
  explicit Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {}

  std::shared_ptr<DeviceState> state_;
};

// Calls f with the backend of the device: every op goes through here.
template <typename F>
decltype(auto) on(const Device& device, F&& f) {
  return f(Cpu{&device.state()});
}

}  // namespace longspan
