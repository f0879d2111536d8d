// Exchanges between the lanes of a warp, and arrived copies, for the implementation of
// instructions.
#pragma once

#include <bit>
#include <cstring>
#include <source_location>

#include "framework/core/dtype.h"
#include "tests/support/emulated_cuda/cuda_runtime.h"

namespace emulated_cuda {

// Returns f(of), where of(lane) is the value of that lane of the warp.
template <typename T, typename F>
auto over_lanes(const T& value,
                const F& f,
                const std::source_location& place = std::source_location::current()) {
  give_value(value, place);
  return f([](unsigned lane) { return given_value<T>(lane); });
}

// An element of a pair, the first in the lower half.
template <typename In>
float element_of(std::uint32_t pair, unsigned half) {
  return static_cast<float>(std::bit_cast<In>(static_cast<std::uint16_t>(pair >> (16 * half))));
}

// Whether arrived copies of a thread are not yet visible to warp group products.
bool has_unshown_copies(unsigned thread);
void show_copies();

}  // namespace emulated_cuda
