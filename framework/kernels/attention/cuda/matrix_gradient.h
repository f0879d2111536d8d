// A tile of the backward pass on matrix units, shared by the blocks of query tiles, key tiles and
// diagonals.
#pragma once

#include <algorithm>
#include <bit>

#include "framework/kernels/attention/cuda/matrix_terms.h"
#include "framework/kernels/attention/cuda/relative_band.h"

namespace longspan::tile_attention {

// A tile's factors [query, row of the band] in shared memory, as pairs of elements, for sums over
// diagonals.
inline constexpr int factor_step = 2 * tile + 8;
inline constexpr std::size_t factor_bytes = tile * factor_step * 2;

// Shared memory of a block: two resident and two streamed tiles of rows. Streamed tiles are
// double-buffered if the next ones are copied ahead.
template <typename Tile>
struct BackwardMemory {
  using In = typename Tile::In;
  using BandOf = Band<In, Tile::dim>;
  TileKeys* keys;
  // for each of two stages: log-sum-exp of queries in units of ln 2, delta, end of the span
  float (*sums)[3][tile];
  float* stage;
  float* key_bias;
  unsigned char* rows;
  BandOf key_band;
  BandOf value_band;

  LONGSPAN_HOST_DEVICE static bool has_table(const AttentionCall<In>& call) {
    return call.key_table || call.value_table;
  }
  LONGSPAN_HOST_DEVICE static std::size_t sum_bytes(const GradientCall<In>& g) {
    return (g.ahead ? 6 : 3) * tile * sizeof(float);
  }
  LONGSPAN_HOST_DEVICE static std::size_t number_bytes(const GradientCall<In>& g) {
    return aligned_bytes<Tile>(sizeof(TileKeys) + sum_bytes(g) + stage_bytes +
                               tile * sizeof(float));
  }
  LONGSPAN_HOST_DEVICE static std::size_t row_bytes(const GradientCall<In>& g) {
    return number_bytes(g) + (g.ahead ? 6 : 4) * Tile::bytes;
  }
  LONGSPAN_HOST_DEVICE static std::size_t band_bytes(const AttentionCall<In>& call) {
    return ((call.key_table ? 1U : 0U) + (call.value_table ? 1U : 0U)) * BandOf::bytes;
  }
  static std::size_t bytes(const GradientCall<In>& g) {
    const AttentionCall<In>& call = g.call;
    const std::size_t both = call.key_table && call.value_table ? 2 : 1;
    const bool apart = has_table(call) && !BandOf::exchanges_in_band;
    return row_bytes(g) + band_bytes(call) +
           (apart ? std::max(both * BandOf::exchange_bytes, factor_bytes) : 0);
  }

  __device__ explicit BackwardMemory(const GradientCall<In>& g)
      : key_band(shared_memory<unsigned char>() + row_bytes(g)),
        value_band(shared_memory<unsigned char>() + row_bytes(g) +
                   (g.call.key_table ? BandOf::bytes : 0)) {
    auto* at = shared_memory<unsigned char>();
    keys = reinterpret_cast<TileKeys*>(at);
    sums = reinterpret_cast<float(*)[3][tile]>(at + sizeof(TileKeys));
    stage = reinterpret_cast<float*>(at + sizeof(TileKeys) + sum_bytes(g));
    key_bias = stage + tile * stage_step;
    rows = at + number_bytes(g);
  }

  // Buffer for exchanging the products of the key table (0) or the value table (1).
  __device__ float* exchange(const GradientCall<In>& g, int which, const TilePosition& at) const {
    if constexpr (BandOf::exchanges_in_band)
      return (which == 0 ? key_band : value_band).second_half(at);
    auto* const first = shared_memory<unsigned char>() + row_bytes(g) + band_bytes(g.call);
    return reinterpret_cast<float*>(first +
                                    (which == 1 && g.call.key_table ? BandOf::exchange_bytes : 0));
  }

  // Resident tiles: 0 has rows of the query or key, 1 rows of dout or the value.
  __device__ Tile local_tile(int which) const { return nth_tile<Tile>(rows, which); }
  __device__ Tile other(int half, int which) const { return local_tile(2 + 2 * half + which); }
};

// Begins to copy query rows and output gradient rows, to one tile each.
template <typename Tile, typename In>
__device__ void start_copy_query_pair(Tile query,
                                      Tile dout,
                                      const GradientCall<In>& g,
                                      std::int64_t b,
                                      std::int64_t h,
                                      std::int64_t first) {
  start_copy_queries(query, g.call.query, g.call, b, h, first);
  start_copy_queries(dout, g.dout, g.call, b, h, first);
}

// Begins to copy key and value rows, to one tile each.
template <typename Tile, typename In>
__device__ void start_copy_key_pair(Tile key,
                                    Tile value,
                                    float* bias,
                                    const AttentionCall<In>& call,
                                    std::int64_t b,
                                    std::int64_t h,
                                    std::int64_t first) {
  start_copy_keys(key, call.key, call, b, h, first);
  start_copy_keys(value, call.value, call, b, h, first);
  if (call.key_bias != nullptr)
    start_copy_numbers(bias, call.key_bias + call.key_bias_index(b, h, first));
}

// For 64 queries: the log-sum-exp in units of ln 2 minus the lift, delta, and the end of the span.
// A row without visible keys gets infinity, which makes its probabilities 0.
template <typename In>
__device__ void read_sums(const GradientCall<In>& g,
                          std::int64_t b,
                          std::int64_t h,
                          std::int64_t first,
                          float (&to)[3][tile]) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i >= tile) return;
  const std::int64_t place = (b * g.call.heads + h) * g.call.time + first + i;
  const bool real = first + i < g.call.time;
  const float sum = real ? g.call.log_sum_exp[place] : minus_infinity<float>;
  to[0][i] = sum == minus_infinity<float> ? -minus_infinity<float> : sum * log2_of_e - lift<In>;
  to[1][i] = real ? g.delta[place] : 0;
  to[2][i] =
      real && g.call.span.z != nullptr ? g.call.span.soft.end(g.call.span_of(b, h, first + i)) : 0;
}

// Converts products to value weights without the dropout factor, and probability gradients to score
// gradients, all lifted. Rows are queries and columns keys, or vice versa if `transposed`; columns
// start at `first` of the tile. Adds to `dspan` the contribution of the thread's elements to the
// span gradients of its two rows, times the ramp.
template <bool transposed, typename In, int columns>
__device__ __forceinline__ void differentiate(const GradientCall<In>& g,
                                              const TilePosition& at,
                                              const TileKeys& keys,
                                              const float (&sums)[3][tile],
                                              int first,
                                              float* stage,
                                              WarpSums<columns>& scores,
                                              WarpSums<columns>& gradients,
                                              float (&dspan)[2]) {
  const AttentionCall<In>& call = g.call;
  const auto query_of = [first](auto n, auto s) {
    using Sums = WarpSums<columns>;
    return transposed ? first + Sums::column(n, s) : Sums::row(s);
  };
  const Distances<transposed> distance(call, at, first);
  const auto inside = [&](auto n, auto s) { return sums[2][query_of(n, s)] - distance(n, s); };
  finish_scores<transposed>(call, at, keys, first, stage, inside, scores);
  // Exponentials of the score minus the log-sum-exp of its row, lifted.
  each_element<columns>([&](auto n, auto s) {
    scores.of[n][s] = tensor_core::power_of_two(scores.of[n][s] - sums[0][query_of(n, s)]);
  });
  const bool has_span = call.span.z != nullptr;
  if (is_plain(call, at.full) && !call.dropout.active && !has_span) {  // keeps exact zeros
    each_element<columns>([&](auto n, auto s) {
      gradients.of[n][s] = scores.of[n][s] * (gradients.of[n][s] - sums[1][query_of(n, s)]);
    });
    return;
  }
  // dS = P (keep dP - delta). Value weights are P where dropout keeps it.
  const auto finish = [&](auto n, auto s, bool kept) {
    const float power = scores.of[n][s], delta = sums[1][query_of(n, s)];
    const float gradient = kept ? gradients.of[n][s] * call.dropout.factor : 0;
    float change = gradient - delta, weight = kept ? power : 0;
    if (has_span) {
      const float by = inside(n, s), soft = call.span.soft.at(by);
      if (power != 0 && call.span.soft.is_on_ramp(by)) dspan[s / 2] += power * change;
      weight *= soft;
      change = soft * change - call.span.soft.floor * delta;
    }
    scores.of[n][s] = weight;
    gradients.of[n][s] = power == 0 ? 0 : power * change;
  };
  if (call.dropout.active)
    each_bit<transposed, columns>(keys.kept, first, finish);
  else
    each_element<columns>([&](auto n, auto s) { finish(n, s, true); });
  // A self pair's score does not depend on the query or the key.
  if (call.hash.has_self && any_same(keys))
    each_bit<transposed, columns>(keys.same, first, [&](auto n, auto s, bool same) {
      if (same) gradients.of[n][s] = 0;
    });
}

// Computes both for a tile whose queries, keys and sums are in shared memory. Rows: the warp's 16
// of 64 queries, or keys if these are the block's own. The sums determine the number of columns.
template <bool by_key, typename Tile, typename In, int columns>
__device__ __forceinline__ void differentiate_tile(const GradientCall<In>& g,
                                                   const BackwardMemory<Tile>& memory,
                                                   int stage,
                                                   const TilePosition& at,
                                                   const float (&sums)[3][tile],
                                                   int first,
                                                   WarpSums<columns>& scores,
                                                   WarpSums<columns>& gradients,
                                                   float (&dspan)[2]) {
  const auto add_table = [&](const auto& band_of, int which, WarpSums<columns>& to) {
    if constexpr (by_key) {
      band_of.add_exchanged(to, memory.exchange(g, which, at), first);
    } else {
      band_of.add_products(
          to, [&](auto k) { return warp_rows_of(memory.local_tile(which), k); }, at);
    }
  };
  if (g.call.key_bias != nullptr)
    scores.change([&](int r, int c, float, int) { return memory.key_bias[by_key ? r : c]; });
  if (g.call.key_table) add_table(memory.key_band, 0, scores);
  if (g.call.value_table) add_table(memory.value_band, 1, gradients);
  Tile::begin(scores, gradients);
  multiply_rows(memory.other(stage, 0).from(first), Product{scores, memory.local_tile(0)});
  multiply_rows(memory.other(stage, 1).from(first), Product{gradients, memory.local_tile(1)});
  Tile::finish(scores, gradients);
  differentiate<by_key>(g, at, *memory.keys, sums, first, memory.stage, scores, gradients, dspan);
}

// With keys as rows: a tile's products with tables, before those of its column parts.
template <typename Tile, typename In>
__device__ __forceinline__ void exchange_tables(const GradientCall<In>& g,
                                                const BackwardMemory<Tile>& memory,
                                                int stage,
                                                const TilePosition& at) {
  const AttentionCall<In>& call = g.call;
  if (!memory.has_table(call)) return;
  const auto exchange = [&](const auto& band_of, int which) {
    const Tile queries = memory.other(stage, which);
    band_of.exchange_products(
        [&](auto k) { return warp_rows_of(queries, k); }, at, memory.exchange(g, which, at));
  };
  if (call.key_table) exchange(memory.key_band, 0);
  if (call.value_table) exchange(memory.value_band, 1);
  __syncthreads();
}

// Score gradients have an unbounded range. In f16 they are scaled by a power of two that keeps the
// largest so far below 2^15. Sums have the same units, and are rescaled when the units change.
template <typename In>
inline constexpr bool has_units = std::is_same_v<In, Float16>;
inline constexpr float max_to_units = 0x1p120f;

__device__ inline float units_of(float largest, float before) {
  constexpr int bias = 127, least = 2 * bias + 14 - (bias + 120);
  const int exponent = std::bit_cast<std::int32_t>(largest) >> 23;
  const float to_units =
      std::bit_cast<float>((2 * bias + 14 - (exponent > least ? exponent : least)) << 23);
  return to_units < before ? to_units : before;
}

// Units of a thread's two rows.
template <typename In>
struct RowUnits {
  float to_units[2] = {max_to_units, max_to_units};

  // Scales gradients to units. Sums over their own rows alone keep those units.
  template <int columns, int dim>
  __device__ __forceinline__ void apply(WarpSums<columns>& gradients,
                                        WarpSums<dim>& sums,
                                        float (&of_rows)[2]) {
    if constexpr (has_units<In>) {
      float largest[2] = {0, 0}, shrink[2];
      gradients.each([&](int, int, float gradient, int r) {
        largest[r] = Max()(std::abs(gradient), largest[r]);
      });
      for (int r = 0; r < 2; ++r) {
        for (int lanes = 1; lanes <= 2; lanes *= 2)
          largest[r] = Max()(largest[r], __shfl_xor_sync(all_lanes, largest[r], lanes));
        const float next = units_of(largest[r], to_units[r]);
        shrink[r] = next / to_units[r];
        to_units[r] = next;
        of_rows[r] *= shrink[r];
      }
      gradients.change([&](int, int, float gradient, int r) { return gradient * to_units[r]; });
      sums.change([&](int, int, float sum, int r) { return sum * shrink[r]; });
    }
  }
  // Factor that converts sums of row r (the thread's first or second) from units.
  __device__ float from_units(int r) const {
    return has_units<In> ? unlifted<In> / to_units[r] : unlifted<In>;
  }
};

// Writes the gradient of 64 queries, from `query` on.
template <typename In, int dim>
__device__ __forceinline__ void write_query_gradient(const GradientCall<In>& g,
                                                     const Either<In>& dquery,
                                                     std::int64_t b,
                                                     std::int64_t h,
                                                     std::int64_t query,
                                                     const RowUnits<In>& units,
                                                     const WarpSums<dim>& sums) {
  const AttentionCall<In>& call = g.call;
  const float factors[2] = {call.scale * units.from_units(0), call.scale * units.from_units(1)};
  write_rows(dquery, call, b, h, call.time, query, sums, factors, g.add);
}

// Begins to copy the halves of a tile's bands.
template <typename Tile, typename In>
__device__ void start_copy_bands(const AttentionCall<In>& call,
                                 const BackwardMemory<Tile>& memory,
                                 const TilePosition& at,
                                 std::int64_t kept) {
  if (call.key_table)
    memory.key_band.start_copy(call, call.key_table, call.distance_bias, at, kept);
  if (call.value_table) memory.value_band.start_copy(call, call.value_table, nullptr, at, kept);
}

// With keys as rows there are two sums of features instead of one. If units or terms other than key
// distances also need registers, only half of a tile's columns fit.
template <bool by_key, Terms terms, typename In>
inline constexpr int columns_at_once =
    by_key && ((terms != Terms::none && terms != Terms::key_distances) || has_units<In>) ? tile / 2
                                                                                         : tile;

// Visits the streamed tiles of the block's own queries, or keys.
//   use(place, first column, rows of query or key, rows of dout or value, weights, score gradients)
template <bool by_key, Terms terms, typename Tile, typename In, typename Use>
__device__ __forceinline__ void for_tiles_of_block(const GradientCall<In>& g,
                                                   const BackwardMemory<Tile>& memory,
                                                   const BlockPosition& block,
                                                   float (&dspan)[2],
                                                   Use use) {
  const AttentionCall<In>& call = g.call;
  const std::int64_t b = block.b, h = block.h, own = block.tile_index * tile;
  const TileLists& lists = by_key ? g.plan.by_key : g.plan.by_query;
  TileCursor cursor(
      lists,
      block.tile_index,
      by_key ? query_tiles_of(call, b, block.tile_index) : key_tiles_of(call, b, block.tile_index));
  std::int64_t kept = no_half;
  const auto place = [&] {
    const std::int64_t other = cursor.tile_index() * tile;
    const std::int64_t query = by_key ? other : own, key = by_key ? own : other;
    return TilePosition{b, h, query, key, cursor.full() && call.reaches(b, query, key)};
  };
  const auto start_next = [&](int stage) {
    if (cursor.any()) {
      const TilePosition at = place();
      if constexpr (by_key) {
        start_copy_query_pair(memory.other(stage, 0), memory.other(stage, 1), g, b, h, at.query);
        read_sums(g, b, h, at.query, memory.sums[stage]);
      } else {
        start_copy_key_pair(
            memory.other(stage, 0), memory.other(stage, 1), memory.key_bias, call, b, h, at.key);
      }
      start_copy_bands(call, memory, at, kept);
      kept = first_half_of(at);
    }
    tensor_core::end_copy_group();
  };
  if constexpr (by_key) {
    start_copy_key_pair(
        memory.local_tile(0), memory.local_tile(1), memory.key_bias, call, b, h, own);
  } else {
    start_copy_query_pair(memory.local_tile(0), memory.local_tile(1), g, b, h, own);
    read_sums(g, b, h, own, memory.sums[0]);
  }
  start_next(0);
  for (int stage = 0; cursor.any(); stage = g.ahead ? 1 - stage : 0) {
    const TilePosition at = place();
    cursor.next(lists);
    if (g.ahead) start_next(1 - stage);
    read_mask(call, g.plan.mask, at, *memory.keys);
    if (g.ahead)
      wait_for_rows<Tile, 1>();
    else
      wait_for_rows<Tile, 0>();
    __syncthreads();
    constexpr int columns = columns_at_once<by_key, terms, In>;
    if constexpr (by_key) exchange_tables(g, memory, stage, at);
#pragma unroll 1
    for (int first = 0; first < tile; first += columns) {
      WarpSums<columns> scores, gradients;
      differentiate_tile<by_key>(
          g, memory, stage, at, memory.sums[by_key ? stage : 0], first, scores, gradients, dspan);
      const auto others = [&](int which) { return memory.other(stage, which).from(first); };
      use(at, first, others, scores, gradients);
    }
    __syncthreads();  // the next tile, or the one after it, is copied here
    if (!g.ahead) start_next(0);
  }
  tensor_core::wait_for_copies<0>();
}

}  // namespace longspan::tile_attention
