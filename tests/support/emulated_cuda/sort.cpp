// Sorting on the emulated device.
#include "framework/kernels/cuda/sort.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>

namespace longspan {

// Allocates the planned scratch.
void sort_stably(Cuda cuda, const Tensor& keys, const Tensor& sorted, const Tensor& order) {
  const Tensor second = order.empty_like(MemoryTag::workspace);
  const Tensor scratch = Tensor::empty(
      {sort_scratch_bytes(keys.elements())}, DType::u8, keys.device(), MemoryTag::workspace);
  if (cuda.state->is_meta()) return;
  const auto from = keys.span<std::int32_t>();
  const auto to = sorted.span<std::int32_t>();
  const auto places = order.span<std::int32_t>();
  emulated_cuda::queue(cuda.stream, [from, to, places] {
    const emulated_cuda::Access access;
    const auto key = [&](std::int32_t i) { return from[static_cast<std::size_t>(i)]; };
    std::iota(places.begin(), places.end(), 0);
    std::ranges::stable_sort(places, {}, key);
    std::ranges::transform(places, to.begin(), key);
  });
}

}  // namespace longspan
