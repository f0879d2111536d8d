// CPU loops over the elements of rows, with the feature of each.
#pragma once

#include "framework/kernels/cpu/loops.h"

namespace longspan {

// Calls f(i, c) for every element i of rows of `shape`, with its feature c. Vectorized.
template <typename F>
void parallel_elements(Cpu, const Shape& shape, F f) {
  const std::int64_t width = shape.width();
  for_rows(shape.rows(), width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = row * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) f(first + c, c);
    }
  });
}

}  // namespace longspan
