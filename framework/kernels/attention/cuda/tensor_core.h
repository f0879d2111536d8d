// Tiled attention on matrix units: bf16 and f16 with sums in f32. A block of four warps has a tile
// of 64 rows, 16 for each warp, or two such tiles. It streams tiles of 64 other rows past them:
// keys past queries, or queries past keys.
#pragma once

#include <type_traits>
#include <utility>

#include "framework/kernels/attention/cuda/backward_tile.h"
#include "framework/kernels/cuda/tensor_core.h"

namespace longspan::tile_attention {

using tensor_core::Pairs;

// Row stride in shared memory, chosen to place 8 rows in different banks.
template <int dim>
inline constexpr int matrix_step = dim + 8;

template <int dim>
inline constexpr std::size_t matrix_bytes = tile* matrix_step<dim> * 2;

// A tile of 64 rows in shared memory. Its layout determines the instruction: this one is for warp
// products of 16 rows. hopper/swizzled_tile.h has the layout for asynchronous warp-group products.
template <typename Element, int width>
struct PaddedTile {
  using In = Element;
  static constexpr int dim = width;
  static constexpr std::size_t bytes = matrix_bytes<dim>;
  static constexpr std::size_t alignment = 16;
  static constexpr bool accumulates_products = false;

  In* rows;

  __device__ In* at(int row, int c) const { return rows + row * matrix_step<dim> + c; }
  __device__ PaddedTile from(int row) const { return {at(row, 0)}; }
  // The first of 16 rows.
  __device__ const In* operator()(int group) const { return at(16 * group, 0); }
  // No-op: warp products are synchronous and read copied data directly.
  __device__ static void show_copies() {}
  template <typename... Sums>
  __device__ static void begin(Sums&...) {}
  template <typename... Sums>
  __device__ static void finish(Sums&...) {}
};

// The n-th of consecutive tiles.
template <typename Tile>
__device__ Tile nth_tile(unsigned char* tiles, int n) {
  return {reinterpret_cast<typename Tile::In*>(tiles + n * Tile::bytes)};
}

// f(0), f(1), ... with compile-time constants, so that indexed arrays stay in registers.
template <int count, typename F>
__device__ __forceinline__ void unrolled(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>()), ...); }
  (std::make_integer_sequence<int, count>());
}

// A warp's part of a product: 16 rows of `columns`. Functions with this argument are forced inline,
// because a call would move it to memory.
template <int width>
struct WarpSums {
  static constexpr int columns = width;
  float of[columns / 8][4] = {};

  // The warp's first row.
  __device__ static int first_row() { return static_cast<int>(threadIdx.x) / 32 * 16; }
  __device__ static int row(int s) {
    return first_row() + static_cast<int>(threadIdx.x) % 32 / 4 + s / 2 * 8;
  }
  __device__ static int column(int n, int s) {
    return 8 * n + static_cast<int>(threadIdx.x) % 4 * 2 + s % 2;
  }
  // f(row, column, element, index of the thread's row: 0 or 1).
  template <typename F>
  __device__ __forceinline__ void each(F f) const {
    unrolled<columns / 2>([&](auto e) {
      constexpr int n = e / 4, s = e % 4;
      f(row(s), column(n, s), of[n][s], s / 2);
    });
  }
  // Replaces elements with the results of f.
  template <typename F>
  __device__ __forceinline__ void change(F f) {
    unrolled<columns / 2>([&](auto e) {
      constexpr int n = e / 4, s = e % 4;
      of[n][s] = f(row(s), column(n, s), of[n][s], s / 2);
    });
  }
};

struct alignas(8) Neighbors {
  float of[2];
};

// Writes the warp's rows of sums, multiplied by the factor of each of a thread's two rows.
// Destination: `rows` rows of a head [.., rows, heads, dim], starting at row `first`.
template <int dim, typename In>
__device__ __forceinline__ void write_rows(const Either<In>& to,
                                           const AttentionCall<In>& call,
                                           std::int64_t b,
                                           std::int64_t h,
                                           std::int64_t rows,
                                           std::int64_t first,
                                           const WarpSums<dim>& sums,
                                           const float (&factors)[2],
                                           bool add) {
  unrolled<2>([&](auto r) {
    const std::int64_t row = first + sums.row(2 * r);
    if (row >= rows) return;
    const std::int64_t begin = call.place(b, rows, row, h, dim, sums.column(0, 0));
    unrolled<dim / 8>([&](auto n) {
      const std::int64_t place = begin + 8 * n;
      Neighbors both = {factors[r] * sums.of[n][2 * r], factors[r] * sums.of[n][2 * r + 1]};
      if (add)
        for (int p = 0; p < 2; ++p) both.of[p] += to.at(place + p);
      if (to.narrow != nullptr)
        reinterpret_cast<std::uint32_t&>(to.narrow[place]) =
            tensor_core::pair_of<In>(both.of[0], both.of[1]);
      else
        reinterpret_cast<Neighbors&>(to.wide_ones[place]) = both;
    });
  });
}

// Rounds up to an address where such a tile may begin.
template <typename Tile>
LONGSPAN_HOST_DEVICE constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + Tile::alignment - 1) / Tile::alignment * Tile::alignment;
}

// Begins to copy 64 rows from address(row); null gives zeros.
template <typename Tile, typename Address>
__device__ __forceinline__ void start_copy_rows(Tile to,
                                                const typename Tile::In* somewhere,
                                                Address address) {
  constexpr unsigned pieces = Tile::dim / 8;
  for (unsigned e = threadIdx.x; e < tile * pieces; e += tile_threads) {
    const auto row = static_cast<int>(e / pieces), c = static_cast<int>(e % pieces) * 8;
    const auto* const from = address(row);
    tensor_core::start_copy(to.at(row, c), from != nullptr ? from + c : somewhere, from != nullptr);
  }
}

// Begins to copy 64 valid rows with stride `step`, without a check and a multiplication for each
// piece.
template <typename Tile>
__device__ __forceinline__ void start_copy_all_rows(Tile to,
                                                    const typename Tile::In* begin,
                                                    std::int64_t step) {
  constexpr unsigned pieces = Tile::dim / 8;
  if constexpr (tile_threads % pieces == 0) {
    constexpr int together = tile_threads / pieces;
    const auto first = static_cast<int>(threadIdx.x / pieces);
    const auto c = static_cast<int>(threadIdx.x % pieces) * 8;
    const typename Tile::In* from = begin + first * step + c;
    unrolled<tile / together>([&](auto part) {
      tensor_core::start_copy(to.at(first + part * together, c), from, true);
      from += together * step;
    });
  } else {
    start_copy_rows(to, begin, [&](int row) { return begin + row * step; });
  }
}

// Begins to copy 64 numbers, or zeros.
__device__ inline void start_copy_numbers(float* to, const float* from) {
  const int c = static_cast<int>(threadIdx.x) * 4;
  if (c >= tile) return;
  if (from != nullptr)
    tensor_core::start_copy(to + c, from + c, true);
  else
    for (int i = 0; i < 4; ++i) to[c + i] = 0;
}

// Begins to copy the rows of 64 queries, from row `first`, of the query or a tensor of its shape.
template <typename Tile, typename In>
__device__ void start_copy_queries(Tile to,
                                   const In* from,
                                   const AttentionCall<In>& call,
                                   std::int64_t b,
                                   std::int64_t h,
                                   std::int64_t first) {
  const In* const begin = from + call.place(b, call.time, first, h, Tile::dim, 0);
  if (first + tile <= call.time) return start_copy_all_rows(to, begin, call.heads * Tile::dim);
  start_copy_rows(to, from, [&](int i) -> const In* {
    return first + i < call.time ? begin + i * call.heads * Tile::dim : nullptr;
  });
}

// Begins to copy the rows of 64 keys of the key or the value.
template <typename Tile, typename In>
__device__ void start_copy_keys(Tile to,
                                const In* from,
                                const AttentionCall<In>& call,
                                std::int64_t b,
                                std::int64_t h,
                                std::int64_t first) {
  const In* const begin = from + call.key_place(b, first, h, Tile::dim, 0);
  if (first + tile <= call.keys && call.all_are_keys())
    return start_copy_all_rows(to, begin, call.key_heads * Tile::dim);
  start_copy_rows(to, from, [&](int j) -> const In* {
    return call.is_key(b, h, first + j) ? begin + j * call.key_heads * Tile::dim : nullptr;
  });
}

// Waits until all of this thread's copy groups except the last `groups` have arrived, visible to
// the products of such tiles. Threads must synchronize before they read data that others copied.
template <typename Tile, int groups>
__device__ void wait_for_rows() {
  tensor_core::wait_for_copies<groups>();
  Tile::show_copies();
}

// Features 16 k .. 16 k + 15 of the warp's rows of a tile.
template <typename Tile>
__device__ Pairs warp_rows_of(Tile rows, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane % 16;
  return tensor_core::read_matrices(rows.at(row, k * 16 + lane / 16 * 8));
}

// A product of a warp's own rows with streamed rows. Several products with the same streamed rows
// are computed together, so that warps read these once.
template <int columns, typename First>
struct Product {
  WarpSums<columns>& sums;
  const First& first;
};
template <int columns, typename First>
Product(WarpSums<columns>&, const First&) -> Product<columns, First>;

// Features 16 k .. 16 k + 15 of a product's own rows, from a tile or from own(k).
template <typename In, int dim>
__device__ __forceinline__ Pairs features_of(const PaddedTile<In, dim>& own, auto k) {
  return warp_rows_of(own, k);
}
template <typename Own>
__device__ __forceinline__ Pairs features_of(const Own& own, auto k) {
  return own(k);
}

// Columns 16 n .. 16 n + 15 of each product's sums += its own 16 rows . the streamed rows.
template <typename In, typename... Products>
__device__ __forceinline__ void add_columns(auto n,
                                            const Pairs (&left)[sizeof...(Products)],
                                            const Pairs& right,
                                            const Products&... products) {
  int i = 0;
  const auto add = [&](auto& sums, const Pairs& own) {
    tensor_core::multiply_add<In>(sums.of[2 * n], own, right.of[0], right.of[1]);
    tensor_core::multiply_add<In>(sums.of[2 * n + 1], own, right.of[2], right.of[3]);
  };
  (add(products.sums, left[i++]), ...);
}

// Offset from the first of 16 rows to the address that this lane provides, with these rows as
// columns.
template <int dim>
__device__ int position_of_lane() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return (lane / 16 * 8 + lane % 8) * matrix_step<dim> + lane / 8 % 2 * 8;
}

// sums[i, j] += own row i . streamed row j, for each product; others(n) points to rows 16 n .. 16 n
// + 15.
template <int dim, typename In, typename Others, int columns, typename Own, typename... More>
__device__ __forceinline__ void add_row_products(Others others,
                                                 const Product<columns, Own>& product,
                                                 const More&... more) {
  const int place = position_of_lane<dim>();
  unrolled<dim / 16>([&](auto k) {
    const Pairs left[] = {features_of(product.first, k), features_of(more.first, k)...};
    unrolled<columns / 16>([&](auto n) {
      const Pairs right = tensor_core::read_matrices(others(n) + place + k * 16);
      add_columns<In>(n, left, right, product, more...);
    });
  });
}

// 16 rows of factors in operand format.
template <int width>
struct Factors {
  static constexpr int columns = width;
  Pairs of[columns / 16];

  // Columns column(n, 0) and the next, of the first or second of the thread's rows.
  __device__ std::uint32_t& word(auto n, auto r) { return of[n / 2].of[n % 2 * 2 + r]; }
  __device__ std::uint32_t word(auto n, auto r) const { return of[n / 2].of[n % 2 * 2 + r]; }
};

// Columns 16 k .. 16 k + 15 of the warp's factors, rounded.
template <typename In, int columns>
__device__ __forceinline__ Pairs pairs_of(const Factors<columns>& factors, auto k) {
  return factors.of[k];
}
template <typename In, int columns>
__device__ __forceinline__ Pairs pairs_of(const WarpSums<columns>& factors, auto k) {
  const auto& first = factors.of[2 * k];
  const auto& second = factors.of[2 * k + 1];
  return {{tensor_core::pair_of<In>(first[0], first[1]),
           tensor_core::pair_of<In>(first[2], first[3]),
           tensor_core::pair_of<In>(second[0], second[1]),
           tensor_core::pair_of<In>(second[2], second[3])}};
}

template <typename In, int columns>
__device__ __forceinline__ Factors<columns> rounded(const WarpSums<columns>& sums) {
  Factors<columns> factors;
  unrolled<columns / 16>([&](auto k) { factors.of[k] = pairs_of<In>(sums, k); });
  return factors;
}

// sums[i, c] += the sum over streamed rows j of factors[i, j] and their feature c, for each
// product.
template <typename In, typename Others, int dim, typename First, typename... More>
__device__ __forceinline__ void add_rows(Others others,
                                         const Product<dim, First>& product,
                                         const More&... more) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int place = lane % 16 * matrix_step<dim> + lane / 16 * 8;
  unrolled<First::columns / 16>([&](auto k) {
    const Pairs left[] = {pairs_of<In>(product.first, k), pairs_of<In>(more.first, k)...};
    unrolled<dim / 16>([&](auto n) {
      const Pairs right = tensor_core::read_transposed(others(k) + place + n * 16);
      add_columns<In>(n, left, right, product, more...);
    });
  });
}

// Adds products of the warp's rows, from a tile or from registers, with a streamed tile, or of
// factors with it. Call Tile::begin(sums...) before and Tile::finish(sums...) after all of them,
// and do not access the sums in between.
template <typename In, int dim, typename... Products>
__device__ __forceinline__ void multiply_rows(PaddedTile<In, dim> others,
                                              const Products&... products) {
  add_row_products<dim, In>(others, products...);
}
template <typename In, int dim, typename... Products>
__device__ __forceinline__ void sum_rows(PaddedTile<In, dim> others, const Products&... products) {
  add_rows<In>(others, products...);
}

inline constexpr float log2_of_e = 1.44269504088896340736f;

// Weights between 0 and 1 are multiplied by 2^lift before they are rounded to elements. f16 has few
// powers of two below 1, and a million small weights may be as important as a large one.
template <typename In>
inline constexpr int lift = std::is_same_v<In, Float16> ? 14 : 0;
template <typename In>
inline constexpr float unlifted = 1 / static_cast<float>(1 << lift<In>);

}  // namespace longspan::tile_attention
