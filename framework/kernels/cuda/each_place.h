// CUDA loops over the elements of rows, with the feature of each.
#pragma once

#include "framework/kernels/cuda/launch.h"

namespace longspan {

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

}  // namespace longspan
