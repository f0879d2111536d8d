// Reductions over warps and blocks.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "framework/kernels/cuda/launch.h"

// The block's dynamic shared memory, with the size given at launch. Kernels use no other shared
// memory. Warp copies and loads require an alignment of 16 bytes, warp-group products 1,024.
extern __shared__ __align__(1024) unsigned char longspan_shared_bytes[];

namespace longspan {

inline constexpr int warp_size = 32;
inline constexpr unsigned all_lanes = ~0u;

template <typename T>
__device__ T* shared_memory() {
  return reinterpret_cast<T*>(longspan_shared_bytes);
}

// Reduction over all lanes, returned in every lane; the order is fixed.
template <typename T, typename F>
__device__ T warp_reduce(T value, F join) {
  for (int lanes = warp_size / 2; lanes > 0; lanes /= 2)
    value = join(value, __shfl_xor_sync(all_lanes, value, lanes));
  return value;
}

// Reduction over a block, by all of its threads; `scratch` is shared memory for one element for
// each warp.
template <typename T, typename F>
__device__ T block_reduce(T value, T* scratch, F join) {
  value = warp_reduce(value, join);
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  if (threadIdx.x % warp_size == 0) scratch[threadIdx.x / warp_size] = value;
  __syncthreads();
  T result = scratch[0];
  for (int warp = 1; warp < warps; ++warp) result = join(result, scratch[warp]);
  __syncthreads();  // scratch may be reused
  return result;
}

struct Plus {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
// fmax semantics: ignores NaN.
struct Max {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return std::fmax(a, b);
  }
};

// Block sums of a and b, by all threads of the block; `scratch` is shared memory for two elements
// for each warp.
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
  __syncthreads();  // scratch may be reused
}

// Scratch of two elements for each warp.
template <typename A>
inline constexpr std::size_t row_scratch_bytes = 2 * 256 / warp_size * sizeof(A);

// One block for each row, with one thread for 4 elements, and scratch for its reductions.
template <typename A>
Grid row_grid(std::int64_t rows, std::int64_t width) {
  int threads = warp_size;
  while (threads < 256 && threads * 4 < width) threads *= 2;
  return {.blocks = rows, .threads = threads, .shared_bytes = row_scratch_bytes<A>};
}

}  // namespace longspan
