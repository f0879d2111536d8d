// Relative-position tables on matrix units. A tile of 64 queries and 64 keys has 127 relative
// positions: two halves of 64 table rows in shared memory. The next tile of the same queries, or
// keys, reuses one half. Row e of half m has relative position query_begin - key_begin - 64 m + 63
// - e. The tile of query tile q and key tile k has the halves k - q and k - q + 1; two adjacent
// query tiles have three. A warp multiplies its 16 rows by the 80 table rows of their relative
// positions. It then shifts row i of the product by i to the key columns. The shift stays in
// registers, because four adjacent threads share a row. 32 consecutive rows need 96 table rows.
#pragma once

#include "framework/kernels/attention/cuda/tensor_core.h"

namespace longspan::tile_attention {

inline constexpr int band_columns = tile + 16;

// to[p] = the column `by` to the right of this thread's column p of eight. `low` has two of these
// columns, and `high` two of the next eight. `by` is 0 to 8, equal in the four threads of a row.
__device__ inline void shift_columns(const float* low, const float* high, int by, float (&to)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, column = lane % 4 * 2;
  const float even = column < by ? high[0] : low[0];
  const float odd = column + 1 < by ? high[1] : low[1];
  for (int p = 0; p < 2; ++p) {
    const int from = (column + p + by) % 8;
    to[p] = __shfl_sync(all_lanes, (p + by) % 2 == 0 ? even : odd, lane / 4 * 4 + from / 2);
  }
}

// to[i, j] += from[i, j - i + 15], for the groups of eight columns whose last input is in columns
// 16 part .. 16 part + 15.
__device__ __forceinline__ void add_shifted(WarpSums<tile>& to,
                                            const WarpSums<band_columns>& from,
                                            auto part) {
  const int by = 7 - static_cast<int>(threadIdx.x) % 32 / 4;
  unrolled<tile / 4>([&](auto e) {
    constexpr int n = e / 2, r = e % 2;  // a thread's second row is eight rows below the first
    constexpr int low = n + 1 - r, high = low + 1;
    if constexpr (high / 2 == part) {
      float shifted[2];
      shift_columns(&from.of[low][2 * r], &from.of[high][2 * r], by, shifted);
      to.of[n][2 * r] += shifted[0];
      to.of[n][2 * r + 1] += shifted[1];
    }
  });
}

// The shift for elements, two in a word.
__device__ inline std::uint32_t shift_columns(std::uint32_t low, std::uint32_t high, int by) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto word = [=](int further) {
    const std::uint32_t given = lane % 4 < further ? high : low;
    return __shfl_sync(all_lanes, given, lane / 4 * 4 + (lane + further) % 4);
  };
  const std::uint32_t first = word(by / 2), second = word(by / 2 + 1);
  return by % 2 == 0 ? first : first >> 16 | second << 16;
}

// The inverse: [i, c] is from[i, c + i - 15], 0 beyond the keys.
__device__ __forceinline__ Factors<band_columns> unshifted(const Factors<tile>& from) {
  const int by = static_cast<int>(threadIdx.x) % 32 / 4 + 1;
  Factors<band_columns> to;
  unrolled<band_columns / 4>([&](auto e) {
    constexpr std::integral_constant<int, e / 2> n;
    constexpr std::integral_constant<int, e % 2> r;
    constexpr std::integral_constant<int, n - 2 + r> low;
    constexpr std::integral_constant<int, n - 1 + r> high;
    std::uint32_t of_low = 0, of_high = 0;
    if constexpr (low >= 0 && low < tile / 8) of_low = from.word(low, r);
    if constexpr (high >= 0 && high < tile / 8) of_high = from.word(high, r);
    to.word(n, r) = shift_columns(of_low, of_high, by);
  });
  return to;
}

// Index of the first half of a tile.
__device__ inline std::int64_t first_half_of(const TilePosition& at) {
  return (at.key - at.query) / tile;
}
inline constexpr std::int64_t no_half = std::int64_t{1} << 62;

// The halves of a tile, or of it and the preceding query tile, in shared memory. Half m is in slot
// m % halves. Also has the bias added to the products of each row.
template <typename In, int dim, int halves = 2>
class Band {
 public:
  static_assert(halves == 2 || halves == 3);
  static constexpr std::size_t bytes = halves * (matrix_bytes<dim> + tile * sizeof(float));

  __device__ explicit Band(unsigned char* at)
      : rows_(reinterpret_cast<In*>(at)),
        biases_(reinterpret_cast<float*>(at + halves * matrix_bytes<dim>)) {}

  // Begins to copy the halves of a tile, except those still present from a tile whose first half
  // was `kept`.
  __device__ void start_copy(const AttentionCall<In>& call,
                             const DistanceTable<const In>& table,
                             const float* biases,
                             const TilePosition& at,
                             std::int64_t kept) const {
    const std::int64_t first = first_half_of(at);
    for (std::int64_t m = first; m < first + halves; ++m) {
      if (m >= kept && m < kept + halves) continue;
      const std::int64_t nearest = call.half_distance(m);
      const int place = position_of_half(m);
      const PaddedTile<In, dim> half = PaddedTile<In, dim>{rows_}.from(place * tile);
      if (nearest <= table.high && nearest - (tile - 1) >= table.low)
        start_copy_all_rows(half, table.row(at.h, nearest), -table.step);
      else
        start_copy_rows(half, table.lowest, [&](int e) -> const In* {
          const std::int64_t distance = nearest - e;
          const bool beyond = distance < table.low || distance > table.high;
          return beyond && !table.clipped ? nullptr : table.row(at.h, distance);
        });
      start_copy_numbers(biases_ + place * tile,
                         biases == nullptr ? nullptr : biases + call.half_place(at.h, m));
    }
  }

  // Pointers to rows 16 n .. 16 n + 15 of the warp's rows.
  struct Rows {
    const In* rows;
    int first;  // slot of the first half
    __device__ const In* operator()(int n) const {
      return rows + position_of(first, first_row() + 16 * n) * matrix_step<dim>;
    }
  };
  __device__ Rows rows(const TilePosition& at) const {
    return {rows_, position_of_half(first_half_of(at))};
  }

  // Row e of a tile's 127.
  __device__ const In* row(const TilePosition& at, int e) const {
    return rows_ + position_of(position_of_half(first_half_of(at)), e) * matrix_step<dim>;
  }

  // sums[i, j] += query row i . the table row of the pair's relative position, plus its bias.
  template <typename Own>
  __device__ __forceinline__ void add_products(WarpSums<tile>& sums,
                                               Own own,
                                               const TilePosition& at) const {
    const WarpSums<band_columns> of_band = products(own, at);
    unrolled<band_columns / 16>([&](auto part) { add_shifted(sums, of_band, part); });
  }

  // For the 32 consecutive query rows of a warp, the first 16 in sums[0]; `last` is the second of a
  // block's two tiles. Processed in parts to limit live registers.
  template <typename Own>
  __device__ __forceinline__ void add_products_of_pair(WarpSums<tile> (&sums)[2],
                                                       Own own,
                                                       const TilePosition& last) const {
    const int place = position_of_half(first_half_of(last));
    const int first = 2 * tile - 32 - static_cast<int>(threadIdx.x) / 32 * 32;
    const In* const of_lane = rows_ + position_of_lane<dim>();
    WarpSums<band_columns> of_band[2];
    unrolled<band_columns / 16 + 1>([&](auto n) {
      const int begin = position_of(place, first + 16 * n);
      const auto for_both = [&](auto f) __attribute__((always_inline)) {
        unrolled<2>([&](auto q) __attribute__((always_inline)) {
          constexpr int part = n - 1 + q;
          if constexpr (part >= 0 && part < band_columns / 16)
            f(q, std::integral_constant<int, part>());
        });
      };
      for_both([&](auto q, auto part) {
        unrolled<8>([&](auto e) {
          constexpr int column = e / 4, s = e % 4;
          of_band[q].of[2 * part + column][s] = biases_[begin + WarpSums<tile>::column(column, s)];
        });
      });
      unrolled<dim / 16>([&](auto k) {
        const Pairs rows = tensor_core::read_matrices(of_lane + begin * matrix_step<dim> + 16 * k);
        for_both([&](auto q, auto part) {
          add_columns<In>(part, {own(q)(k)}, rows, Product{of_band[q], own});
        });
      });
      for_both([&](auto q, auto part) { add_shifted(sums[q], of_band[q], part); });
    });
  }

  // sums[q] += the products of part q's factors with the rows of their relative positions. Parts
  // are consecutive: one for 16 query rows, two for two tiles, where `last` is the second.
  template <int count>
  __device__ __forceinline__ void add_rows_of_parts(WarpSums<dim> (&sums)[count],
                                                    const Factors<tile> (&factors)[count],
                                                    const TilePosition& last) const {
    static_assert(halves == count + 1);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int place = position_of_half(first_half_of(last));
    const int first = count * (tile - 16 - static_cast<int>(threadIdx.x) / 32 * 16);
    const In* const of_lane = rows_ + lane % 16 * matrix_step<dim> + lane / 16 * 8;
    Factors<band_columns> shifted[count];
    unrolled<count>([&](auto q) { shifted[q] = unshifted(factors[q]); });
    unrolled<band_columns / 16 + count - 1>([&](auto n) {
      const In* const from = of_lane + position_of(place, first + 16 * n) * matrix_step<dim>;
      unrolled<dim / 16>([&](auto c) {
        const Pairs rows = tensor_core::read_transposed(from + c * 16);
        unrolled<count>([&](auto q) {
          constexpr int part = n - (count - 1) + q;
          if constexpr (part >= 0 && part < band_columns / 16)
            add_columns<In>(c, {shifted[q].of[part]}, rows, Product{sums[q], shifted[q]});
        });
      });
    });
  }

  // With keys as rows, warps exchange the products through shared memory, one key at a time. If
  // `exchange` overlaps the band's second half, that half is overwritten. Results may be read after
  // the threads synchronize.
  template <typename Own>
  __device__ __forceinline__ void exchange_products(Own own,
                                                    const TilePosition& at,
                                                    float* exchange) const {
    const WarpSums<band_columns> of_queries = products(own, at);
    __syncthreads();  // all warps have read the band
    const int first = of_queries.column(0, 0) + of_queries.row(0) % 16 - 15;
    int places[4];  // of a thread's first elements; the others have known offsets
    unrolled<4>([&](auto s) { places[s] = exchange_place(of_queries.row(s), first + s % 2); });
    unrolled<band_columns / 2>([&](auto e) {
      constexpr int n = e / 4, s = e % 4, further = 8 * n + s / 2 * 8;
      if (first + further + s % 2 >= 0 && first + further + s % 2 < tile)
        exchange[places[s] + further * tile] = of_queries.of[n][s];
    });
  }
  // sums[j, c] += the product of key j and query first + c.
  template <int columns>
  __device__ __forceinline__ static void add_exchanged(WarpSums<columns>& sums,
                                                       const float* exchange,
                                                       int first) {
    unrolled<columns / 4>([&](auto e) {
      constexpr int n = e / 2, r = e % 2;
      const int place = exchange_place(first + sums.column(n, 0), sums.row(2 * r));
      const auto& both = reinterpret_cast<const Neighbors&>(exchange[place]);
      unrolled<2>([&](auto p) { sums.of[n][2 * r + p] += both.of[p]; });
    });
  }
  static constexpr std::size_t exchange_bytes = tile * tile * sizeof(float);
  static constexpr bool exchanges_in_band = matrix_bytes<dim> >= exchange_bytes;
  __device__ float* second_half(const TilePosition& at) const {
    const int place = position_of_half(first_half_of(at) + 1);
    return reinterpret_cast<float*>(rows_ + place * tile * matrix_step<dim>);
  }

 private:
  // Swizzled offset of the product of query i and key j: the key changes bits 3 and 4 of the query.
  // This avoids bank conflicts between the writing threads of a warp, whose keys follow their
  // queries. It also avoids them between the readers, which have two queries of eight keys.
  __device__ static int exchange_place(int i, int j) {
    return j * tile + (i ^ ((j & 6) << 2) ^ ((j & 1) << 4));
  }
  __device__ static int position_of_half(std::int64_t m) {
    if constexpr (halves == 2) return static_cast<int>(m & 1);
    const int rest = static_cast<int>(m) % halves;
    return rest < 0 ? rest + halves : rest;
  }
  // Offset of row e if the first half is in slot `first`; the slots form a ring.
  __device__ static int position_of(int first, int e) {
    const int place = first * tile + e;
    if constexpr (halves == 2) return place & (2 * tile - 1);
    return place < halves * tile ? place : place - halves * tile;
  }

  template <typename Own>
  __device__ __forceinline__ WarpSums<band_columns> products(Own own,
                                                             const TilePosition& at) const {
    WarpSums<band_columns> sums;
    const Rows of_band = rows(at);
    unrolled<band_columns / 2>([&](auto x) {
      constexpr int n = x / 4, s = x % 4;
      sums.of[n][s] = biases_[position_of(of_band.first, first_row() + 8 * n) + sums.column(0, s)];
    });
    add_row_products<dim, In>(of_band, Product{sums, own});
    return sums;
  }
  // The first of the 127 rows that the warp needs.
  __device__ static int first_row() { return tile - 16 - static_cast<int>(threadIdx.x) / 32 * 16; }

  In* rows_;
  float* biases_;
};

}  // namespace longspan::tile_attention
