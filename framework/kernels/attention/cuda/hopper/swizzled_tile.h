// Tiles of rows in the layout of warp-group products. These read the streamed rows once for 64 own
// rows, not once for the 16 of each warp.
#pragma once

#include "framework/kernels/attention/cuda/hopper/warp_group.h"
#include "framework/kernels/attention/cuda/tensor_core.h"

namespace longspan::tile_attention {

// Panels of 64 features, in which a row has 128 bytes.
template <typename Element, int width>
struct SwizzledTile {
  using In = Element;
  static_assert(width % 64 == 0);
  static constexpr int dim = width;
  static constexpr int panel = tile * 64;  // elements
  static constexpr std::size_t bytes = tile * dim * sizeof(In);
  static constexpr std::size_t alignment = 1024;
  static constexpr bool accumulates_products = true;
  static_assert(bytes % alignment == 0);

  In* rows;

  __device__ In* at(int row, int c) const {
    return rows + c / 64 * panel + row * 64 + ((c / 8 ^ row) & 7) * 8 + c % 8;
  }
  __device__ SwizzledTile from(int row) const { return {rows + row * 64}; }  // multiples of 8
  // Factors at features from 16 k on, and at rows from 16 k on of features from 64 n on.
  __device__ warp_group::Factor features(int k) const {
    return warp_group::Factor(rows + k / 4 * panel + k % 4 * 16);
  }
  __device__ warp_group::Factor group(int k, int n) const {
    return warp_group::Factor(rows + n * panel + k * 16 * 64);
  }
  __device__ static void show_copies() { warp_group::show_copies(); }
  template <typename... Sums>
  __device__ __forceinline__ static void begin(Sums&... sums) {
    (warp_group::hold(sums.of), ...);
  }
  template <typename... Sums>
  __device__ __forceinline__ static void finish(Sums&... sums) {
    warp_group::end();
    warp_group::wait();
    (warp_group::hold(sums.of), ...);
  }
};

template <typename In, int dim, int columns, typename Own>
__device__ __forceinline__ void multiply_rows(SwizzledTile<In, dim> others,
                                              const Product<columns, Own>& product) {
  if constexpr (std::is_same_v<Own, SwizzledTile<In, dim>>) {
    warp_group::begin();
    unrolled<dim / 16>([&](auto k) {
      warp_group::multiply<In>(product.sums.of, product.first.features(k), others.features(k));
    });
  } else {
    Pairs left[dim / 16];
    unrolled<dim / 16>([&](auto k) {
      left[k] = product.first(k);
      warp_group::hold(left[k]);
    });
    warp_group::begin();
    unrolled<dim / 16>([&](auto k) {
      warp_group::multiply<In, warp_group::Second::rows, 0>(
          product.sums.of, left[k], others.features(k));
    });
  }
}
template <typename In, int dim, typename... Products>
__device__ __forceinline__ void multiply_rows(SwizzledTile<In, dim> others,
                                              const Products&... products) {
  (multiply_rows(others, products), ...);
}

template <typename In, int dim, int columns>
__device__ __forceinline__ void sum_rows(SwizzledTile<In, dim> others,
                                         const Product<dim, WarpSums<columns>>& product) {
  Pairs left[columns / 16];
  unrolled<columns / 16>([&](auto k) {
    left[k] = pairs_of<In>(product.first, k);
    warp_group::hold(left[k]);
  });
  warp_group::begin();
  unrolled<columns / 16>([&](auto k) {
    unrolled<dim / 64>([&](auto n) {
      warp_group::multiply<In, warp_group::Second::transposed, 8 * n>(
          product.sums.of, left[k], others.group(k, n));
    });
  });
}

}  // namespace longspan::tile_attention
