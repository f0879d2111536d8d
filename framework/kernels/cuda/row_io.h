// Rows whose elements are split among the threads of a block: a thread reads and writes four
// adjacent elements, in one access if they are aligned.
#pragma once

#include <cstdint>

#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/element.h"

namespace longspan {

template <typename T>
struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Vec4 {
  T at[4];
};

// Whether the groups of four of the row that begins at `row` are aligned for single accesses.
template <typename T>
__device__ bool is_aligned(const T* row, std::int64_t width) {
  return width % 4 == 0 && reinterpret_cast<std::uintptr_t>(row) % alignof(Vec4<T>) == 0;
}

// The elements from `first` on; zeros after the end of the row.
template <typename T>
__device__ Vec4<T> read_four(const T* row, std::int64_t first, std::int64_t width) {
  if (is_aligned(row, width)) return *reinterpret_cast<const Vec4<T>*>(row + first);
  Vec4<T> four = {};
  for (int k = 0; k < 4; ++k)
    if (first + k < width) four.at[k] = row[first + k];
  return four;
}

template <typename T>
__device__ void write_four(T* row, std::int64_t first, std::int64_t width, const Vec4<T>& four) {
  if (is_aligned(row, width)) {
    *reinterpret_cast<Vec4<T>*>(row + first) = four;
    return;
  }
  for (int k = 0; k < 4; ++k)
    if (first + k < width) row[first + k] = four.at[k];
}

// Calls f(first, four) for this thread's groups of four that begin before `end`. Reads several
// groups before passing on the first, because a row may be long and f may write to it.
template <typename T, typename F>
__device__ void each_read_four(const T* row, std::int64_t end, std::int64_t width, const F& f) {
  constexpr int together = 4;
  const std::int64_t step = 4 * blockDim.x;
  for (std::int64_t i = 4 * threadIdx.x; i < end; i += together * step) {
    Vec4<T> fours[together] = {};
    for (int q = 0; q < together; ++q)
      if (i + q * step < end) fours[q] = read_four(row, i + q * step, width);
    for (int q = 0; q < together; ++q)
      if (i + q * step < end) f(i + q * step, fours[q]);
  }
}

// Calls f(first) for this thread's groups of four, which are the same in every call.
template <typename F>
__device__ void each_four(std::int64_t width, const F& f) {
  for (std::int64_t first = 4 * threadIdx.x; first < width; first += 4 * blockDim.x) f(first);
}

}  // namespace longspan
