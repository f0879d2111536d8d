#include "framework/kernels/power_norm.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

// Sums of each block of rows, [blocks, width], in row order.
template <typename A, typename T, typename U>
void sum_blocks(const ProductSums& call, std::int64_t block, A* partial) {
  const std::int64_t rows = call.a.shape().rows(), width = call.a.shape().width();
  const T* const a = call.a.data<T>();
  const U* const b = call.b.data<U>();
  const A* const counted = call.counted.defined() ? call.counted.data<A>() : nullptr;
  const std::int64_t blocks = (rows + block - 1) / block;
  for_rows(blocks, block * width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      A* const sums = partial + k * width;
      std::fill_n(sums, width, A{0});
      for (std::int64_t r = k * block; r < std::min(rows, (k + 1) * block); ++r) {
        const A times = counted == nullptr ? A{1} : counted[r];
        if (times == A{0}) continue;
        const T* const left = a + r * width;
        const U* const right = b + r * width;
#pragma omp simd
        for (std::int64_t c = 0; c < width; ++c)
          sums[c] += wide(left[c]) * static_cast<A>(wide(right[c]));
      }
    }
  });
}

}  // namespace

void add_product_sums(Cpu, const ProductSums& call) {
  check(call);
  const std::int64_t rows = call.a.shape().rows(), width = call.a.shape().width();
  if (rows == 0) return;
  const std::int64_t block = rows_in_block(rows), blocks = (rows + block - 1) / block;
  with_both_types(call.a, call.b, [&]<typename T, typename U>(TypeTag<T>, TypeTag<U>) {
    using A = Accumulator<T>;
    std::vector<A> partial(static_cast<std::size_t>(blocks * width));
    sum_blocks<A, T, U>(call, block, partial.data());
    add_rows_in_order(partial.data(), blocks, width, call.sums.data<A>());
  });
}

}  // namespace longspan
