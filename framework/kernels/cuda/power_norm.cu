#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/power_norm.h"

namespace longspan {
namespace {

// One thread for each feature of each block of rows: accesses of adjacent threads are coalesced.
template <typename T, typename U>
struct SumBlock {
  using A = Accumulator<T>;
  std::int64_t rows, width, block;
  const T* a;
  const U* b;
  const A* counted;
  A* partial;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t k = i / width, c = i % width;
    const std::int64_t end = (k + 1) * block < rows ? (k + 1) * block : rows;
    A sum = 0;
    for (std::int64_t r = k * block; r < end; ++r) {
      const A times = counted == nullptr ? A{1} : counted[r];
      if (times != A{0}) sum += wide(a[r * width + c]) * static_cast<A>(wide(b[r * width + c]));
    }
    partial[i] = sum;
  }
};

template <typename A>
struct AddBlocks {
  std::int64_t blocks, width;
  const A* partial;
  A* sums;

  __device__ void operator()(std::int64_t c) const {
    A sum = 0;
    for (std::int64_t k = 0; k < blocks; ++k) sum += partial[k * width + c];
    sums[c] += sum;
  }
};

}  // namespace

void add_product_sums(Cuda cuda, const ProductSums& call) {
  check(call);
  const std::int64_t rows = call.a.shape().rows(), width = call.a.shape().width();
  if (rows == 0) return;
  constexpr std::int64_t block = 64;
  const std::int64_t blocks = (rows + block - 1) / block;
  const Tensor partial =
      Tensor::empty({blocks, width}, call.sums.dtype(), call.sums.device(), MemoryTag::workspace);
  with_both_types(call.a, call.b, [&]<typename T, typename U>(TypeTag<T>, TypeTag<U>) {
    using A = Accumulator<T>;
    for_each_element(cuda,
                     blocks * width,
                     SumBlock<T, U>{rows,
                                    width,
                                    block,
                                    call.a.data<T>(),
                                    call.b.data<U>(),
                                    call.counted.defined() ? call.counted.data<A>() : nullptr,
                                    partial.data<A>()});
    for_each_element(
        cuda, width, AddBlocks<A>{blocks, width, partial.data<A>(), call.sums.data<A>()});
  });
}

}  // namespace longspan
