// Tables whose rows belong to a distance, on matrix units. A tile of 64 queries and 64 keys has 127
// distances: two halves of 64 rows of the table in shared memory, of which the next tile of the
// same queries, or keys, has one again. Row e of half m is that of distance query_begin - key_begin
// - 64 m + 63 - e; the tile of query tile q and key tile k has the halves k - q and k - q + 1. A
// warp multiplies its 16 rows with the 80 rows whose distances they have, and shifts row i of the
// product by i to where the keys are: in registers, since four neighbouring threads have a row.
#pragma once

#include "framework/kernels/cuda/attention_matrix.h"

namespace longspan::tile_attention {

inline constexpr int band_columns = tile + 16;

// to[p] = the column `by` to the right of this thread's column p of eight, of which `low` has two
// and `high` two of the next eight. `by` is 0 to 8, the same in the four threads of a row.
__device__ inline void shift_columns(const float* low, const float* high, int by, float (&to)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, column = lane % 4 * 2;
  const float even = column < by ? high[0] : low[0];
  const float odd = column + 1 < by ? high[1] : low[1];
  for (int p = 0; p < 2; ++p) {
    const int from = (column + p + by) % 8;
    to[p] = __shfl_sync(all_lanes, (p + by) % 2 == 0 ? even : odd, lane / 4 * 4 + from / 2);
  }
}

// to[i, j] += from[i, j - i + 15].
__device__ __forceinline__ void add_shifted(WarpSums<tile>& to,
                                            const WarpSums<band_columns>& from) {
  const int by = 7 - static_cast<int>(threadIdx.x) % 32 / 4;
  unrolled<tile / 4>([&](auto e) {
    constexpr int n = e / 2, r = e % 2;  // the second of a thread's rows is eight further down
    float shifted[2];
    shift_columns(&from.of[n + 1 - r][2 * r], &from.of[n + 2 - r][2 * r], by, shifted);
    to.of[n][2 * r] += shifted[0];
    to.of[n][2 * r + 1] += shifted[1];
  });
}

// The other way: [i, c] is from[i, c + i - 15], 0 beyond the keys.
__device__ __forceinline__ WarpSums<band_columns> unshifted(const WarpSums<tile>& from) {
  const int by = static_cast<int>(threadIdx.x) % 32 / 4 + 1;
  WarpSums<band_columns> to;
  unrolled<band_columns / 4>([&](auto e) {
    constexpr int n = e / 2, r = e % 2, low = n - 2 + r, high = n - 1 + r;
    float of_low[2] = {}, of_high[2] = {}, shifted[2];
    for (int p = 0; p < 2; ++p) {
      if constexpr (low >= 0 && low < tile / 8) of_low[p] = from.of[low][2 * r + p];
      if constexpr (high >= 0 && high < tile / 8) of_high[p] = from.of[high][2 * r + p];
    }
    shift_columns(of_low, of_high, by, shifted);
    to.of[n][2 * r] = shifted[0];
    to.of[n][2 * r + 1] = shifted[1];
  });
  return to;
}

// The number of the first half of a tile.
__device__ inline std::int64_t first_half_of(const TilePlace& at) {
  return (at.key - at.query) / tile;
}
inline constexpr std::int64_t no_half = std::int64_t{1} << 62;

// Two halves in shared memory, half m in place m % 2, and for each row what a bias adds to its
// products.
template <typename In, int dim>
class Band {
 public:
  static constexpr std::size_t bytes = 2 * (matrix_bytes<dim> + tile * sizeof(float));

  __device__ explicit Band(unsigned char* at)
      : rows_(reinterpret_cast<In*>(at)),
        biases_(reinterpret_cast<float*>(at + 2 * matrix_bytes<dim>)) {}

  // Begins to copy the halves of a tile, but for number `kept` where it is one of them.
  __device__ void begin_copy(const AttentionCall<In>& call,
                             const DistanceTable<const In>& table,
                             const float* biases,
                             const TilePlace& at,
                             std::int64_t kept) const {
    const std::int64_t first = first_half_of(at);
    for (std::int64_t m = first; m < first + 2; ++m) {
      if (m == kept) continue;
      const std::int64_t nearest = call.half_distance(m);
      const int place = static_cast<int>(m & 1);
      const PaddedTile<In, dim> half = PaddedTile<In, dim>{rows_}.from(place * tile);
      if (nearest <= table.high && nearest - (tile - 1) >= table.low)
        begin_copy_all_rows(half, table.row(at.h, nearest), -table.step);
      else
        begin_copy_rows(half, table.lowest, [&](int e) -> const In* {
          const std::int64_t distance = nearest - e;
          const bool beyond = distance < table.low || distance > table.high;
          return beyond && !table.clipped ? nullptr : table.row(at.h, distance);
        });
      begin_copy_numbers(biases_ + place * tile,
                         biases == nullptr ? nullptr : biases + call.half_place(at.h, m));
    }
  }

  // Where rows 16 n .. 16 n + 15 of the warp's are.
  struct Rows {
    const In* rows;
    int first;  // the place of the first half
    __device__ const In* operator()(int n) const {
      return rows + place_of(first, first_row() + 16 * n) * matrix_step<dim>;
    }
  };
  __device__ Rows rows(const TilePlace& at) const {
    return {rows_, static_cast<int>(first_half_of(at) & 1)};
  }

  // Row e of a tile's 127.
  __device__ const In* row(const TilePlace& at, int e) const {
    return rows_ + place_of(static_cast<int>(first_half_of(at) & 1), e) * matrix_step<dim>;
  }

  // sums[i, j] += row i of the queries' . the row of the pair's distance, and its bias.
  template <typename Own>
  __device__ __forceinline__ void add_products(WarpSums<tile>& sums,
                                               Own own,
                                               const TilePlace& at) const {
    add_shifted(sums, products(own, at));
  }

  // Where keys are rows warps exchange the products through shared memory, key by key, of which the
  // band's second half is no longer there where `exchange` is its. They may be read when threads
  // have met.
  template <typename Own>
  __device__ __forceinline__ void exchange_products(Own own,
                                                    const TilePlace& at,
                                                    float* exchange) const {
    const WarpSums<band_columns> of_queries = products(own, at);
    __syncthreads();  // all have read the band
    // From the thread's first element to the others is known: one address is enough for all.
    const int i = of_queries.row(0), first = of_queries.column(0, 0) + i % 16 - 15;
    const int place = first * exchange_step + i;
    unrolled<band_columns / 2>([&](auto e) {
      constexpr int n = e / 4, s = e % 4, further = 8 * n + s % 2 + s / 2 * 8;
      if (first + further >= 0 && first + further < tile)
        exchange[place + further * exchange_step + s / 2 * 8] = of_queries.of[n][s];
    });
  }
  static constexpr int exchange_step = tile + 2;  // against conflicts
  static constexpr std::size_t exchange_bytes = tile * exchange_step * sizeof(float);
  static constexpr bool exchanges_in_band = matrix_bytes<dim> >= exchange_bytes;
  __device__ float* second_half(const TilePlace& at) const {
    const int place = static_cast<int>((first_half_of(at) + 1) & 1);
    return reinterpret_cast<float*>(rows_ + place * tile * matrix_step<dim>);
  }

 private:
  // Where row e is, when the first half is in place `first`: the places are a ring.
  __device__ static int place_of(int first, int e) { return (first * tile + e) & (2 * tile - 1); }

  template <typename Own>
  __device__ __forceinline__ WarpSums<band_columns> products(Own own, const TilePlace& at) const {
    WarpSums<band_columns> sums;
    const Rows of_band = rows(at);
    unrolled<band_columns / 2>([&](auto x) {
      constexpr int n = x / 4, s = x % 4;
      sums.of[n][s] = biases_[place_of(of_band.first, first_row() + 8 * n) + sums.column(0, s)];
    });
    add_row_products<dim, In>(of_band, Product{sums, own});
    return sums;
  }
  // The warp's first of the 127 rows.
  __device__ static int first_row() { return tile - 16 - static_cast<int>(threadIdx.x) / 32 * 16; }

  In* rows_;
  float* biases_;
};

}  // namespace longspan::tile_attention
