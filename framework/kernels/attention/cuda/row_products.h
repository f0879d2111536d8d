// Computes one number for each of many rows of features: the dot product with a second vector.
#pragma once

#include <limits>

#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/cuda/row_io.h"

namespace longspan::tile_attention {

inline constexpr int lanes_a_row = 8;

// For n below `count`: rows.to(n) = the sum over c below `width` of feature c of rows.row(n) times
// rows.others(n, c). rows.row(n) may be null if the sum is 0. rows.others(n, c) returns the factors
// of feature c and the next three. Adjacent threads share a row. Row indices have 32 bits, because
// a 32-bit division takes a fifth of the time of a 64-bit one.
template <typename In, typename Rows>
__global__ void sum_row_products(std::uint32_t count,
                                 int width,
                                 const __grid_constant__ Rows rows) {
  const std::uint32_t n = blockIdx.x * (blockDim.x / lanes_a_row) + threadIdx.x / lanes_a_row;
  const int lane = static_cast<int>(threadIdx.x) % lanes_a_row;
  const In* const row = n < count ? rows.row(n) : nullptr;
  Accumulator<In> sum = 0;
  if (row != nullptr)
    for (int c = 4 * lane; c < width; c += 4 * lanes_a_row) {
      const Vec4<In> features = read_four(row, c, width);
      const auto others = rows.others(n, c);
      for (int k = 0; k < 4; ++k) sum += wide(features.at[k]) * wide(others.at[k]);
    }
  for (int apart = lanes_a_row / 2; apart > 0; apart /= 2)
    sum += __shfl_xor_sync(all_lanes, sum, apart);
  if (n < count && lane == 0) rows.to(n) = sum;
}

template <typename In, typename Rows>
void launch_row_products(Cuda cuda, std::int64_t count, int width, const Rows& rows) {
  constexpr int threads = 256, rows_a_block = threads / lanes_a_row;
  require(count <= std::numeric_limits<std::uint32_t>::max() - rows_a_block,
          "attention: more rows than the kernel supports");
  launch(cuda,
         {.blocks = (count + rows_a_block - 1) / rows_a_block, .threads = threads},
         sum_row_products<In, Rows>,
         static_cast<std::uint32_t>(count),
         width,
         rows);
}

}  // namespace longspan::tile_attention
