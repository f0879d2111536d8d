// One tile of 64 queries and 64 keys in a block of 128 threads: its products, mask and scores, for
// any head width and dtype. A thread has 4 x 8 elements of a product in registers. In row-wise
// passes, two adjacent threads share a row.
#pragma once

#include "framework/kernels/attention/cuda/kernel_arguments.h"
#include "framework/kernels/attention/cuda/tile_plan.h"
#include "framework/kernels/cuda/block_reduce.h"

namespace longspan::tile_attention {

inline constexpr int tile_threads = 128;
inline constexpr int thread_rows = 4;
inline constexpr int thread_columns = 8;
inline constexpr int depth = 32;              // features read at once
inline constexpr int depth_step = depth + 1;  // row stride in shared memory, against bank conflicts
inline constexpr int tile_step = tile + 2;    // row stride of a tile
inline constexpr int band = 2 * tile - 1;     // relative positions of a tile

// Indices of a tile, its batch row and head, its first query and its first key.
struct TilePosition {
  std::int64_t b;
  std::int64_t h;
  std::int64_t query;
  std::int64_t key;
  bool full;
};

// One bit for each pair of a tile: query i and key j have bit j % 32 of word 2 i + j / 32.
struct PairBits {
  std::uint32_t words[2 * tile];

  __device__ bool operator()(int i, int j) const {
    return (words[2 * i + j / 32] >> (j % 32) & 1) != 0;
  }
};

// Validity of a tile's keys and pairs. Pair bits are filled only if pairs are checked individually,
// or with dropout.
struct alignas(16) TileKeys {
  std::int32_t position[tile];
  std::int32_t bucket[tile];
  std::uint32_t real[2];  // bits
  PairBits visible;       // allowed pairs
  PairBits same;          // allowed pairs with equal positions, if these have a self score
  bool any_same[4];       // for the pairs that each warp's threads evaluated
  PairBits kept;          // pairs that dropout keeps

  __device__ bool is_real(int j) const { return (real[j / 32] >> (j % 32) & 1) != 0; }
};

// Shared memory of a block.
template <typename T>
struct TileMemory {
  TileKeys* keys;
  T* rows;    // [tile]: one number for each row
  T* stage;   // operands of a product: rows of features, or a tile
  T* first;   // [tile, tile_step]: scores, then probabilities
  T* second;  // as first; in the backward pass: probability gradients, then score gradients

  static constexpr std::size_t stage_elements = (tile + band + 1) * depth_step;
  static constexpr std::size_t tile_elements = tile * tile_step;
  static constexpr std::size_t bytes(bool backward) {
    return sizeof(TileKeys) +
           (tile + stage_elements + (backward ? 2 : 1) * tile_elements) * sizeof(T);
  }
  __device__ TileMemory() {
    auto* at = shared_memory<unsigned char>();
    keys = reinterpret_cast<TileKeys*>(at);
    rows = reinterpret_cast<T*>(at + sizeof(TileKeys));
    stage = rows + tile;
    first = stage + stage_elements;
    second = first + tile_elements;
  }
};

// A thread's part of a product of 64 x 64.
template <typename T>
struct Sums {
  T at[thread_rows][thread_columns] = {};

  __device__ static int row() { return static_cast<int>(threadIdx.x) / 8 * thread_rows; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % 8 * thread_columns; }
  // Calls f(row, column, element) for the thread's elements.
  template <typename F>
  __device__ void each(F f) {
    for (int r = 0; r < thread_rows; ++r)
      for (int c = 0; c < thread_columns; ++c) f(row() + r, column() + c, at[r][c]);
  }
  __device__ void write(T* to) {
    each([&](int i, int j, T sum) { to[i * tile_step + j] = sum; });
  }
};

// sums += left right, with left(row, k) and right(k, column) for k below `count`.
template <typename T, typename Left, typename Right>
__device__ void add_product(Sums<T>& sums, int count, Left left, Right right) {
  const int row = Sums<T>::row(), column = Sums<T>::column();
  for (int k = 0; k < count; ++k) {
    T of_rows[thread_rows];
    for (int r = 0; r < thread_rows; ++r) of_rows[r] = left(row + r, k);
    for (int c = 0; c < thread_columns; ++c) {
      const T of_column = right(k, column + c);
      for (int r = 0; r < thread_rows; ++r) sums.at[r][c] += of_rows[r] * of_column;
    }
  }
}

// to[r, c] = f(r, c) with `columns` elements in each row and stride `step`, by the whole block.
template <int columns, typename T, typename F>
__device__ void fill_rows(T* to, int rows, int step, F f) {
  for (int e = static_cast<int>(threadIdx.x); e < rows * columns; e += tile_threads)
    to[e / columns * step + e % columns] = f(e / columns, e % columns);
}

// sums[i, j] += the dot product of rows left(i, feature) and right(j, feature) of `width` features.
template <typename T, typename Left, typename Right>
__device__ void add_row_products(Sums<T>& sums, int width, T* stage, Left left, Right right) {
  T* const other = stage + tile * depth_step;
  for (int first = 0; first < width; first += depth) {
    __syncthreads();
    const auto part = [&](auto rows) {
      return [=](int r, int c) { return first + c < width ? rows(r, first + c) : T{0}; };
    };
    fill_rows<depth>(stage, tile, depth_step, part(left));
    fill_rows<depth>(other, tile, depth_step, part(right));
    __syncthreads();
    add_product(
        sums,
        depth,
        [=](int i, int k) { return stage[i * depth_step + k]; },
        [=](int k, int j) { return other[j * depth_step + k]; });
  }
}

// Feature c of the table row of a relative position; 0 beyond the ends of an unclipped table.
template <typename In>
__device__ Accumulator<In> distance_feature(const DistanceTable<const In>& table,
                                            std::int64_t h,
                                            std::int64_t distance,
                                            int c) {
  if (!table.clipped && (distance < table.low || distance > table.high)) return 0;
  return wide(table.row(h, distance)[c]);
}

// Relative position of the tile's first query and key. Row e of its band has relative position
// origin + 63 - e, and pair (i, j) uses row j - i + 63.
template <typename In>
__device__ std::int64_t origin_of(const AttentionCall<In>& call, const TilePosition& at) {
  return call.query_begin + at.query - call.key_begin - at.key;
}

// Side of a pair that is multiplied by the row of its relative position.
enum class Multiplied { query, key };

// sums[i, j] += left(i, feature), or left(j, feature), . the table row of the pair's relative
// position.
template <Multiplied side = Multiplied::query, typename In, typename Left>
__device__ void add_distance_products(Sums<Accumulator<In>>& sums,
                                      const DistanceTable<const In>& table,
                                      std::int64_t h,
                                      std::int64_t origin,
                                      Accumulator<In>* stage,
                                      Left left) {
  using T = Accumulator<In>;
  const auto width = static_cast<int>(table.width);
  T* const distances = stage + tile * depth_step;
  const int row = Sums<T>::row();
  const T* const own = distances + (Sums<T>::column() - row + tile - thread_rows) * depth_step;
  for (int first = 0; first < width; first += depth) {
    __syncthreads();
    fill_rows<depth>(stage, tile, depth_step, [=](int r, int c) {
      return first + c < width ? left(r, first + c) : T{0};
    });
    fill_rows<depth>(distances, band, depth_step, [&](int e, int c) {
      return first + c < width ? distance_feature(table, h, origin + tile - 1 - e, first + c)
                               : T{0};
    });
    __syncthreads();
    for (int k = 0; k < depth; ++k) {
      constexpr int count = side == Multiplied::query ? thread_rows : thread_columns;
      const int own_first = side == Multiplied::query ? row : Sums<T>::column();
      T rows[count];
      for (int r = 0; r < count; ++r) rows[r] = stage[(own_first + r) * depth_step + k];
      T near[thread_rows + thread_columns - 1];
      for (int e = 0; e < thread_rows + thread_columns - 1; ++e) near[e] = own[e * depth_step + k];
      for (int r = 0; r < thread_rows; ++r)
        for (int c = 0; c < thread_columns; ++c)
          sums.at[r][c] += rows[side == Multiplied::query ? r : c] * near[c - r + thread_rows - 1];
    }
  }
}

// sums[i, c] (or sums[j, c]) += the sum over pairs (i, j) of factors[i, j] times features first ..
// first + 63 of the table row of their relative position.
template <Multiplied side = Multiplied::query, typename In>
__device__ void add_distance_rows(Sums<Accumulator<In>>& sums,
                                  const DistanceTable<const In>& table,
                                  std::int64_t h,
                                  std::int64_t origin,
                                  const Accumulator<In>* factors,
                                  Accumulator<In>* stage,
                                  int first) {
  using T = Accumulator<In>;
  for (int begin = 0; begin < 2 * tile; begin += tile) {
    __syncthreads();
    fill_rows<tile>(stage, tile, tile_step, [&](int e, int c) {
      return first + c < table.width
                 ? distance_feature(table, h, origin + tile - 1 - begin - e, first + c)
                 : T{0};
    });
    __syncthreads();
    add_product(
        sums,
        tile,
        [=](int own, int e) {
          const int by = begin + e - (tile - 1);  // key minus query
          const int other = side == Multiplied::query ? own + by : own - by;
          if (other < 0 || other >= tile) return T{0};
          return side == Multiplied::query ? factors[own * tile_step + other]
                                           : factors[other * tile_step + own];
        },
        [=](int e, int c) { return stage[e * tile_step + c]; });
  }
}

// The features of rows of a tile. Rows beyond the sequence and padding rows are read as zeros, so
// that their contents (NaN, for example) do not reach a product.
template <typename In>
struct TileRows {
  using T = Accumulator<In>;
  const AttentionCall<In>& call;
  TilePosition at;
  const TileKeys& keys;

  __device__ T query(int i, int c, const Either<In>& bias) const {
    if (at.query + i >= call.time) return 0;
    const T x = wide(call.query[call.place(at.b, call.time, at.query + i, at.h, call.dim, c)]);
    return bias.given() ? x + bias.at(at.h * call.dim + c) : x;
  }
  __device__ T of_query(const In* from, int i, int c) const {
    if (at.query + i >= call.time) return 0;
    return wide(from[call.place(at.b, call.time, at.query + i, at.h, call.value_dim, c)]);
  }
  __device__ T key(int j, int c) const {
    if (!keys.is_real(j)) return 0;
    return wide(call.key[call.key_place(at.b, at.key + j, at.h, call.dim, c)]);
  }
  __device__ T value(int j, int c) const {
    if (!keys.is_real(j)) return 0;
    return wide(call.value[call.key_place(at.b, at.key + j, at.h, call.value_dim, c)]);
  }
};

template <typename In>
__device__ void read_keys(const AttentionCall<In>& call, const TilePosition& at, TileKeys& keys) {
  const int j = static_cast<int>(threadIdx.x);
  if (j >= tile) return;
  const bool real = call.is_key(at.b, at.h, at.key + j);
  const std::uint32_t bits = __ballot_sync(all_lanes, real);
  if (j % 32 == 0) keys.real[j / 32] = bits;
  keys.position[j] = real ? call.key_position(at.b, at.h, at.key + j) : -1;
  keys.bucket[j] = real && call.sorted.key_bucket != nullptr
                       ? call.sorted.key_bucket[(at.b * call.heads + at.h) * call.keys + at.key + j]
                       : 0;
}

// Each thread evaluates the pairs of half a row.
template <typename In>
__device__ void read_pairs(const AttentionCall<In>& call,
                           const MaskView& mask,
                           const TilePosition& at,
                           TileKeys& keys) {
  const int i = static_cast<int>(threadIdx.x) / 2, first = static_cast<int>(threadIdx.x) % 2 * 32;
  const std::int64_t query = at.query + i;
  std::uint32_t bits = ~std::uint32_t{0};
  if (!at.full) {
    bits = query < call.time ? mask.word(call.query_begin + query, call.key_begin + at.key + first)
                             : 0;
    bits &= call.reached(at.b, query, at.key + first);
  }
  bits &= keys.real[threadIdx.x % 2];
  const auto& sorted = call.sorted;
  const bool has_position = bits != 0 && (sorted.query_position != nullptr || call.hash.has_self);
  const std::int32_t position = has_position ? call.query_position(at.b, at.h, query) : -1;
  if (bits != 0 && sorted.query_position != nullptr) {
    const std::int32_t bucket =
        sorted.query_bucket != nullptr
            ? sorted.query_bucket[(at.b * call.heads + at.h) * call.time + query]
            : 0;
    const std::int32_t last = sorted.causal ? position : std::numeric_limits<std::int32_t>::max();
    std::uint32_t allowed = 0;
#pragma unroll
    for (int j = 0; j < 32; ++j)
      if (keys.position[first + j] <= last && keys.bucket[first + j] == bucket)
        allowed |= std::uint32_t{1} << j;
    bits &= position >= 0 ? allowed : 0;
  }
  keys.visible.words[threadIdx.x] = bits;
  if (!call.hash.has_self) return;
  std::uint32_t same = 0;
#pragma unroll
  for (int j = 0; j < 32; ++j)
    if (keys.position[first + j] == position) same |= std::uint32_t{1} << j;
  same &= bits;
  keys.same.words[threadIdx.x] = same;
  const bool any = __ballot_sync(all_lanes, same != 0) != 0;
  if (threadIdx.x % 32 == 0) keys.any_same[threadIdx.x / 32] = any;
}

// Each thread evaluates dropout for half a row.
template <typename In>
__device__ void read_cached(const AttentionCall<In>& call, const TilePosition& at, TileKeys& keys) {
  if (!call.dropout.active) return;
  const int i = static_cast<int>(threadIdx.x) / 2, first = static_cast<int>(threadIdx.x) % 2 * 32;
  keys.kept.words[threadIdx.x] =
      call.dropout.kept(call.dropout.index.of(at.b, at.h, at.query + i, at.key + first));
}

// One row of a tile's pairs: converts products to scores, and gives the factors of the weights.
template <typename In>
struct TileRow {
  using T = Accumulator<In>;
  const AttentionCall<In>& call;
  TilePosition at;
  const TileKeys& keys;
  int i;
  std::int32_t position;  // for hash rules
  T end = 0;              // of the soft span

  __device__ TileRow(const AttentionCall<In>& c, const TilePosition& p, const TileKeys& k, int row)
      : call(c), at(p), keys(k), i(row), position(-1) {
    if (at.query + i >= call.time) return;
    position = call.query_position(at.b, at.h, at.query + i);
    if (call.span.z != nullptr) end = call.span.soft.end(call.span_of(at.b, at.h, at.query + i));
  }
  __device__ T distance(int j) const { return static_cast<T>(origin_of(call, at) + i - j); }
  __device__ T soft(int j) const { return call.span.soft.at(end - distance(j)); }
  __device__ bool is_on_ramp(int j) const { return call.span.soft.is_on_ramp(end - distance(j)); }
  __device__ bool is_self(int j) const { return call.hash.has_self && keys.same(i, j); }

  __device__ T score(int j, T product) const {
    if (!keys.visible(i, j)) return minus_infinity<T>;
    T score = is_self(j) ? call.hash.self : product * call.scale;
    if (call.cap > 0) score = call.cap * std::tanh(score / call.cap);
    if (call.given.any()) {
      const std::int64_t of_row = (at.query + i) * call.heads + at.h;
      score += call.given.at(
          of_row, at.b * call.time * call.heads + of_row, call.key_begin + at.key + j);
    }
    if (call.slopes != nullptr) score -= call.slopes[at.h] * std::abs(distance(j));
    if (call.bias.all != nullptr) score += call.bias.at(at.h, j - i - origin_of(call, at));
    // Includes a token's pair with itself, which shares every round.
    if (call.hash.rounds > 0)
      score -= call.hash.logarithm(at.b * call.heads + at.h, position, keys.position[j]);
    // Without a floor, keys beyond the span are masked. If such a score were the row's maximum, the
    // other weights could underflow.
    if (call.span.z != nullptr && !(call.span.soft.floor > 0) && !(soft(j) > 0))
      return minus_infinity<T>;
    return score;
  }

  // Factor from the gradient of a score to the gradient of its scaled product.
  __device__ T cap_slope(T product) const {
    if (!(call.cap > 0)) return 1;
    const T part = std::tanh(product * call.scale / call.cap);
    return 1 - part * part;
  }

  // Calls f(j, factor) for this thread's half of the row, every other column, with the dropout
  // factor.
  template <typename F>
  __device__ void each(F f) const {
    const int half = static_cast<int>(threadIdx.x) % 2;
    const auto& d = call.dropout;
    for (int j = half; j < tile; j += 2) f(j, !d.active ? T{1} : keys.kept(i, j) ? d.factor : T{0});
  }
};

// Writes the products of the tile's queries and keys to memory.first, and its mask to memory.keys.
template <typename In>
__device__ void read_scores(const AttentionCall<In>& call,
                            const MaskView& mask,
                            const TilePosition& at,
                            const TileMemory<Accumulator<In>>& memory) {
  using T = Accumulator<In>;
  __syncthreads();  // the previous tile has been used
  read_keys(call, at, *memory.keys);
  __syncthreads();
  read_pairs(call, mask, at, *memory.keys);
  read_cached(call, at, *memory.keys);
  const TileRows<In> rows{call, at, *memory.keys};
  Sums<T> sums;
  add_row_products(
      sums,
      call.dim,
      memory.stage,
      [&](int i, int c) { return rows.query(i, c, call.content_bias); },
      [&](int j, int c) { return rows.key(j, c); });
  if (call.key_table)
    add_distance_products(
        sums, call.key_table, at.h, origin_of(call, at), memory.stage, [&](int i, int c) {
          return rows.query(i, c, call.position_bias);
        });
  if (call.keys_by_distance)
    add_distance_products<Multiplied::key>(
        sums, call.key_table, at.h, origin_of(call, at), memory.stage, [&](int j, int c) {
          return rows.key(j, c);
        });
  sums.write(memory.first);
}

// Calls f(key tile, whether all its pairs are allowed) for the tiles visible to a query tile.
template <typename In, typename F>
__device__ void for_key_tiles(const AttentionCall<In>& call,
                              const TileLists& lists,
                              std::int64_t b,
                              std::int64_t query_tile,
                              F f) {
  const std::int64_t begin = call.first_key_tile(b, query_tile);
  for (std::int64_t r = lists.begin[query_tile]; r < lists.begin[query_tile + 1]; ++r) {
    const TileRun run = lists.runs[r];
    for (std::int64_t t = run.begin < begin ? begin : run.begin; t < run.end; ++t)
      f(t, run.full != 0 && call.reaches(b, query_tile * tile, t * tile));
  }
}
// Calls f(query tile, whether all its pairs are allowed) for the tiles that see a key tile.
template <typename In, typename F>
__device__ void for_query_tiles(const AttentionCall<In>& call,
                                const TileLists& lists,
                                std::int64_t b,
                                std::int64_t key_tile,
                                F f) {
  const std::int64_t end = call.end_query_tile(b, key_tile);
  for (std::int64_t r = lists.begin[key_tile]; r < lists.begin[key_tile + 1]; ++r) {
    const TileRun run = lists.runs[r];
    for (std::int64_t t = run.begin; t < run.end && t < end; ++t)
      f(t, run.full != 0 && call.reaches(b, t * tile, key_tile * tile));
  }
}

}  // namespace longspan::tile_attention
