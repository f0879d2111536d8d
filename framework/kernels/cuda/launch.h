// Launches CUDA kernels. Every kernel is launched through `launch`, never with <<< >>>, so that the
// same files compile as plain C++ against an emulated runtime.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "framework/core/cuda/status.h"
#include "framework/core/device.h"
#include "framework/kernels/element.h"

namespace longspan {

struct Grid {
  std::int64_t blocks = 0;
  int threads = 256;             // of a block, a multiple of 32
  std::size_t shared_bytes = 0;  // of a block
};

// Shared memory available to a block without opting in.
inline constexpr std::size_t usual_shared_bytes = 48 * 1024;

// Launches nothing if there are no blocks, or on a dry device. Launch functions allocate their
// scratch on a dry device as well, so that it is counted.
template <typename... Parameters, typename... Arguments>
void launch(Cuda cuda,
            const Grid& grid,
            void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  require(
      grid.blocks < std::int64_t{1} << 31, "CUDA: a grid of {} blocks is too large", grid.blocks);
  if (grid.blocks == 0 || cuda.state->is_meta()) return;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3{static_cast<unsigned>(grid.blocks), 1, 1};
  config.blockDim = dim3{static_cast<unsigned>(grid.threads), 1, 1};
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = cuda.stream;
  const auto start = [&] {
    if (grid.shared_bytes > usual_shared_bytes)
      if (const cudaError_t status =
              cudaFuncSetAttribute(kernel,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(grid.shared_bytes));
          status != cudaSuccess)
        return status;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
  };
  cudaError_t status = start();
  if (status == cudaErrorMemoryAllocation) {
    // Kernels are loaded on first use, and the caching allocator may leave no memory for that.
    static_cast<void>(cudaGetLastError());
    cuda.state->allocator().trim();
    status = start();
  }
  if (status == cudaSuccess) return;
  require_success(
      status,
      fmt::format("launching a kernel with {} bytes of shared memory", grid.shared_bytes).c_str());
}

// Compute capability 9.0, which some library calls and instructions require.
inline bool is_hopper(Cuda cuda) {
  return attribute(cudaDevAttrComputeCapabilityMajor, cuda.state->gpu()) == 9;
}

template <typename F>
__global__ void each_element(std::int64_t count, F f) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    f(i);
}

// Calls f(i) for every i below count, on the device and in any order.
template <typename F>
void for_each_element(Cuda cuda, std::int64_t count, F f) {
  constexpr int threads = 256;
  constexpr std::int64_t max_blocks = 4096;
  const std::int64_t blocks = std::min((count + threads - 1) / threads, max_blocks);
  launch(cuda, {.blocks = blocks, .threads = threads}, each_element<F>, count, f);
}

// Number of elements that a thread reads before its first write. Otherwise each read would wait for
// the previous write, which may alias it. A GPU with 2,048 threads for each multiprocessor would
// then have 4 KB of 16-bit elements in flight, but its memory needs over 20 KB.
template <typename T>
inline constexpr int elements_together = sizeof(T) < 8 ? 16 / static_cast<int>(sizeof(T)) : 4;

template <typename T, typename F>
__global__ void write_each_element(std::int64_t count, T* out, F f) {
  constexpr int together = elements_together<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + (together - 1) * step < count; i += together * step) {
    decltype(f(i)) values[together];  // the loops over them are unrolled
    for (int k = 0; k < together; ++k) values[k] = f(i + k * step);
    for (int k = 0; k < together; ++k) put(out[i + k * step], values[k]);
  }
  for (; i < count; i += step) put(out[i], f(i));
}

// out[i] = f(i), rounded, for every i below count, on the device and in any order. f(i) may read
// out[i], but no other element of out.
template <typename T, typename F>
void write_elements(Cuda cuda, std::int64_t count, T* out, F f) {
  constexpr int threads = 256;
  constexpr std::int64_t max_blocks = 1024;  // approximately the number resident on a large GPU
  const std::int64_t blocks = std::min((count + threads - 1) / threads, max_blocks);
  launch(cuda, {.blocks = blocks, .threads = threads}, write_each_element<T, F>, count, out, f);
}

// f(i, c) for the elements i of rows, with the feature c of each.
template <typename F>
struct InRows {
  std::int64_t width;
  F f;

  __device__ void operator()(std::int64_t i) const { f(i, i % width); }
};

// Calls f(i, c) for every element i of rows of `shape`, with its feature c, in any order.
template <typename F>
void parallel_elements(Cuda cuda, const Shape& shape, F f) {
  for_each_element(cuda, shape.elements(), InRows<F>{shape.width(), f});
}

template <typename F>
struct InGroups {
  std::int64_t width;
  F f;

  __device__ void operator()(std::int64_t i) const { f.of(i / width)(i, i % width); }
};

// For each group of `width` elements: g = f.of(group), then g(i, c) for its elements i, the c-th of
// the group, in any order.
template <typename F>
void parallel_groups(Cuda cuda, std::int64_t groups, std::int64_t width, F f) {
  for_each_element(cuda, groups * width, InGroups<F>{width, f});
}

// Calls f(row) for every row, one thread each.
template <typename F>
void parallel_rows(Cuda cuda, std::int64_t rows, std::int64_t /*cost*/, const F& f) {
  for_each_element(cuda, rows, f);
}

// The pairs and the rest of the features of a head, one each.
template <typename F>
struct OfHeads {
  std::int64_t items, pairs;
  F f;

  __device__ void operator()(std::int64_t i) const {
    const auto head = f.of(i / items);
    const std::int64_t item = i % items;
    if (item < pairs)
      head.pair(item);
    else
      head.rest(item);
  }
};

// For every head of every row of x [batch, time, heads, dim], with h = f.of(its number): h.pair(i)
// for the first `pairs` features, and h.rest(i) for those from `pairs` to dim - pairs.
template <typename F>
void for_each_of_heads(Cuda cuda, const Shape& shape, std::int64_t pairs, F f) {
  const std::int64_t items = shape[3] - pairs;
  for_each_element(cuda, shape[0] * shape[1] * shape[2] * items, OfHeads<F>{items, pairs, f});
}

}  // namespace longspan
