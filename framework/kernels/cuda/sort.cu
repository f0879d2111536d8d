#include <cub/device/device_radix_sort.cuh>

#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/cuda/sort.h"

namespace longspan {
namespace {

struct Count {
  std::int32_t* out;

  __device__ void operator()(std::int64_t i) const { out[i] = static_cast<std::int32_t>(i); }
};

}  // namespace

void sort_stably(Cuda cuda, const Tensor& keys, const Tensor& sorted, const Tensor& order) {
  const std::int64_t count = keys.elements();
  require(sorted.elements() == count && order.elements() == count,
          "sort_stably: expected outputs of {} elements, found {} and {}",
          count,
          sorted.elements(),
          order.elements());
  const Tensor places = order.empty_like(MemoryTag::workspace);
  for_each_element(cuda, count, Count{places.data<std::int32_t>()});
  const auto take = [&](std::int64_t bytes) {
    return Tensor::empty({bytes}, DType::u8, keys.device(), MemoryTag::workspace);
  };
  if (cuda.state->is_meta()) {
    take(sort_scratch_bytes(count));
    return;
  }
  std::size_t bytes = 0;
  const auto sort = [&](void* scratch) {
    require_success(cub::DeviceRadixSort::SortPairs(scratch,
                                                    bytes,
                                                    keys.data<std::int32_t>(),
                                                    sorted.data<std::int32_t>(),
                                                    places.data<std::int32_t>(),
                                                    order.data<std::int32_t>(),
                                                    count,
                                                    0,
                                                    32,
                                                    cuda.stream),
                    "sorting");
  };
  sort(nullptr);  // queries the scratch size
  const Tensor scratch = take(static_cast<std::int64_t>(bytes));
  sort(scratch.bytes());
}

}  // namespace longspan
