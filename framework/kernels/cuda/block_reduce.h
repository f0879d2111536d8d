// What the threads of a block do together.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "framework/kernels/cuda/launch.h"

// The block's shared memory, as much as its launch asked for. The only way in which kernels use
// shared memory. Copies and loads of warps need 16 bytes of alignment, what groups of warps
// multiply 1,024.
extern __shared__ __align__(1024) unsigned char longspan_shared_bytes[];

namespace longspan {

inline constexpr int warp_size = 32;
inline constexpr unsigned all_lanes = ~0u;

template <typename T>
__device__ T* shared_memory() {
  return reinterpret_cast<T*>(longspan_shared_bytes);
}

// The values of all lanes put together, in every lane; the order is fixed.
template <typename T, typename F>
__device__ T warp_reduce(T value, F join) {
  for (int lanes = warp_size / 2; lanes > 0; lanes /= 2)
    value = join(value, __shfl_xor_sync(all_lanes, value, lanes));
  return value;
}

// The same over a block, by all of its threads; `scratch` is shared memory for an element a warp.
template <typename T, typename F>
__device__ T block_reduce(T value, T* scratch, F join) {
  value = warp_reduce(value, join);
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  if (threadIdx.x % warp_size == 0) scratch[threadIdx.x / warp_size] = value;
  __syncthreads();
  T result = scratch[0];
  for (int warp = 1; warp < warps; ++warp) result = join(result, scratch[warp]);
  __syncthreads();  // scratch may be used again
  return result;
}

struct Plus {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
// Of a number and NaN the number.
struct Max {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return std::fmax(a, b);
  }
};

// a and b, each added over a block by all of its threads; `scratch` is shared memory for two
// elements a warp.
template <typename T>
__device__ void block_reduce_sum(T& a, T& b, T* scratch) {
  a = warp_reduce(a, Plus());
  b = warp_reduce(b, Plus());
  if (threadIdx.x % warp_size == 0) {
    scratch[2 * (threadIdx.x / warp_size)] = a;
    scratch[2 * (threadIdx.x / warp_size) + 1] = b;
  }
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  a = b = 0;
  for (int warp = 0; warp < warps; ++warp) {
    a += scratch[2 * warp];
    b += scratch[2 * warp + 1];
  }
  __syncthreads();  // scratch may be used again
}

// Two numbers a warp.
template <typename A>
inline constexpr std::size_t row_scratch_bytes = 2 * 256 / warp_size * sizeof(A);

// A block a row, with a thread for 4 of its elements and that much scratch.
template <typename A>
Grid row_grid(std::int64_t rows, std::int64_t width) {
  int threads = warp_size;
  while (threads < 256 && threads * 4 < width) threads *= 2;
  return {.blocks = rows, .threads = threads, .shared_bytes = row_scratch_bytes<A>};
}

}  // namespace longspan
