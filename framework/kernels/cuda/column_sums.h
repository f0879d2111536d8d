// Sums over rows in a fixed order.
#pragma once

#include "framework/core/tensor.h"
#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/element.h"

namespace longspan {

// write(b * width + c, sum over the rows of block b of term(r, c)).
template <typename A, typename F, typename W>
__global__ void sum_row_blocks(
    std::int64_t rows, std::int64_t width, std::int64_t rows_in_block, F term, W write) {
  const std::int64_t across = (width + blockDim.x - 1) / blockDim.x;
  const std::int64_t block = blockIdx.x / across;
  const std::int64_t column = blockIdx.x % across * blockDim.x + threadIdx.x;
  if (column >= width) return;
  const std::int64_t first = block * rows_in_block;
  const std::int64_t last = first + rows_in_block < rows ? first + rows_in_block : rows;
  A sum = 0;
#pragma unroll 8  // reads several rows before adding them
  for (std::int64_t row = first; row < last; ++row) sum += term(row, column);
  write(block * width + column, sum);
}

// write(c, sum over b of partial[b, c]). A block has a warp's width of columns, and its warps split
// the rows.
template <typename A, typename F>
__global__ void add_row_blocks(std::int64_t blocks, std::int64_t width, const A* partial, F write) {
  A* const sums = shared_memory<A>();
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t column = std::int64_t{blockIdx.x} * warp_size + lane;
  A sum = 0;
  if (column < width) {
#pragma unroll 8
    for (std::int64_t block = warp; block < blocks; block += warps)
      sum += partial[block * width + column];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp > 0 || column >= width) return;
  for (int other = 1; other < warps; ++other) sum += sums[other * warp_size + lane];
  write(column, sum);
}

template <typename A>
struct StorePartial {
  A* out;

  __device__ void operator()(std::int64_t i, A sum) const { out[i] = sum; }
};

// Term: the element in row r and column c of a matrix.
template <typename T>
struct MatrixElement {
  std::int64_t width;
  const T* x;

  __device__ Accumulator<T> operator()(std::int64_t row, std::int64_t column) const {
    return wide(x[row * width + column]);
  }
};

// out[c] += sum.
template <typename T>
struct AddToColumn {
  T* out;

  template <typename A>
  __device__ void operator()(std::int64_t column, A sum) const {
    put(out[column], static_cast<A>(wide(out[column])) + sum);
  }
};

// write(c, sum over b of partial[b, c]), in the order of b.
template <typename A, typename W>
void add_partials(Cuda cuda, std::int64_t blocks, std::int64_t width, const A* partial, W write) {
  constexpr int threads = 256;
  launch(cuda,
         {.blocks = (width + warp_size - 1) / warp_size,
          .threads = threads,
          .shared_bytes = threads * sizeof(A)},
         add_row_blocks<A, W>,
         blocks,
         width,
         partial,
         write);
}

// write(c, sum over r of term(r, c)). The summation order depends only on the sizes.
template <typename A, typename F, typename W>
void sum_columns(
    Cuda cuda, const Device& device, std::int64_t rows, std::int64_t width, F term, W write) {
  if (rows == 0 || width == 0) return;
  constexpr int threads = 128;
  const std::int64_t rows_in_block = std::max<std::int64_t>(32, (rows + 255) / 256);
  const std::int64_t blocks = (rows + rows_in_block - 1) / rows_in_block;
  const auto sum_blocks = [&](auto to) {
    launch(cuda,
           {.blocks = blocks * ((width + threads - 1) / threads), .threads = threads},
           sum_row_blocks<A, F, decltype(to)>,
           rows,
           width,
           rows_in_block,
           term,
           to);
  };
  if (blocks == 1) return sum_blocks(write);
  const Tensor partial =
      Tensor::empty({blocks, width}, DTypeOf<A>::value, device, MemoryTag::workspace);
  sum_blocks(StorePartial<A>{partial.data<A>()});
  add_partials(cuda, blocks, width, partial.data<A>(), write);
}

}  // namespace longspan
