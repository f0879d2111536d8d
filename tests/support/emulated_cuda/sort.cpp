// Sorting on the emulated device.
#include "framework/kernels/cuda/sort.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>

namespace longspan {

void sort_stably(Cuda, const Tensor& keys, const Tensor& sorted, const Tensor& order) {
  const emulated_cuda::Access access;
  const auto from = keys.span<std::int32_t>();
  const auto places = order.span<std::int32_t>();
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(
      places, {}, [&](std::int32_t i) { return from[static_cast<std::size_t>(i)]; });
  std::ranges::transform(places, sorted.data<std::int32_t>(), [&](std::int32_t i) {
    return from[static_cast<std::size_t>(i)];
  });
}

}  // namespace longspan
