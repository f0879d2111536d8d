// Calls of kernels on a device. No other header depends on whether there is a CUDA backend, so
// files that do not include this one compile to the same objects with and without it.
#pragma once

#include <source_location>
#include <type_traits>

#include "framework/core/device.h"
#include "framework/core/span.h"

namespace longspan {

// Calls f with the device's backend; every op is dispatched here. On a dry CPU f is not called, and
// the result is default-constructed. So f must not create tensors that outlive it, nor counted
// scratch. `place`: the call site, for the profiler.
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

// Variant of `on` for kernels with counted scratch or FLOPs: matrix products and attention. On a
// dry CPU they are called too, allocate scratch, count FLOPs and return before computing.
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

}  // namespace longspan
