// Sums over rows in a fixed order.
#pragma once

#include "framework/core/tensor.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/element.h"

namespace longspan {

// partial[b, c] = sum over the rows of block b of term(r, c).
template <typename A, typename F>
__global__ void sum_row_blocks(
    std::int64_t rows, std::int64_t width, std::int64_t rows_in_block, F term, A* partial) {
  const std::int64_t across = (width + blockDim.x - 1) / blockDim.x;
  const std::int64_t block = blockIdx.x / across;
  const std::int64_t column = blockIdx.x % across * blockDim.x + threadIdx.x;
  if (column >= width) return;
  const std::int64_t first = block * rows_in_block;
  const std::int64_t last = first + rows_in_block < rows ? first + rows_in_block : rows;
  A sum = 0;
  for (std::int64_t row = first; row < last; ++row) sum += term(row, column);
  partial[block * width + column] = sum;
}

template <typename A, typename T>
struct AddRowsInOrder {
  std::int64_t rows;
  std::int64_t width;
  const A* partial;
  T* out;

  __device__ void operator()(std::int64_t column) const {
    A sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += partial[row * width + column];
    put(out[column], static_cast<A>(wide(out[column])) + sum);
  }
};

// A term: what stands in row r and column c of a matrix.
template <typename T>
struct MatrixElement {
  std::int64_t width;
  const T* x;

  __device__ Accumulator<T> operator()(std::int64_t row, std::int64_t column) const {
    return wide(x[row * width + column]);
  }
};

// out[c] += sum over r of term(r, c), which is an A. The order of the sum depends on the sizes
// alone.
template <typename A, typename F, typename T>
void add_column_sums_of(
    Cuda cuda, const Device& device, std::int64_t rows, std::int64_t width, F term, T* out) {
  if (rows == 0 || width == 0) return;
  constexpr int threads = 128;
  const std::int64_t rows_in_block = std::max<std::int64_t>(32, (rows + 255) / 256);
  const std::int64_t blocks = (rows + rows_in_block - 1) / rows_in_block;
  const Tensor partial =
      Tensor::empty({blocks, width}, DTypeOf<A>::value, device, MemoryTag::workspace);
  launch(cuda,
         {.blocks = blocks * ((width + threads - 1) / threads), .threads = threads},
         sum_row_blocks<A, F>,
         rows,
         width,
         rows_in_block,
         term,
         partial.data<A>());
  for_each_element(cuda, width, AddRowsInOrder<A, T>{blocks, width, partial.data<A>(), out});
}

}  // namespace longspan
