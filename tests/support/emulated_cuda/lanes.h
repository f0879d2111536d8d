// What the lanes of a warp exchange, and what a thread's copies brought: for the bodies of
// instructions.
#pragma once

#include <bit>
#include <cstring>
#include <source_location>

#include "framework/core/dtype.h"
#include "tests/support/emulated_cuda/cuda_runtime.h"

namespace emulated_cuda {

// What f makes of the values that the lanes of the warp give: of(lane) in f is that of a lane.
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

// Whether copies of a thread of the block have arrived that products of warp groups do not see yet.
bool has_unshown_copies(unsigned thread);
void show_copies();

}  // namespace emulated_cuda
