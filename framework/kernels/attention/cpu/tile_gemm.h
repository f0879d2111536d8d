// Matrix products of tiled attention, on tiles that fit in the L1 and L2 caches. A library call has
// too much overhead at 64 x 64 x 64. The left factor is read by rows or by columns, with any
// stride, so that a skewed band is a stride larger by one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/attention/cpu/element.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

// Register block: 6 x 4 accumulators with 32 registers, 6 x 2 with 16.
inline constexpr int block_registers = HWY_MAX_BYTES == 64 ? 32 : 16;
inline constexpr int block_rows = 6;
inline constexpr int block_vectors = block_registers == 32 ? 4 : 2;

// c[m, n] = sum_k a(m, k) b[k, n], or added to c; k counts lanes. By row, the rows of a have stride
// `a_step` elements. By column, a is stacked and its rows have stride `a_step` lanes: a(m, k) is
// lane k * a_step + m. b is stacked: [depth, b_step] lanes. c: rows with stride `c_step`.
template <typename E>
struct Factors {
  std::int64_t depth;
  const E* a;
  std::int64_t a_step;
  const E* b;
  std::int64_t b_step;
  Accumulator<E>* c;
  std::int64_t c_step;
};

template <bool by_column, bool add, int rows, int vectors, typename E>
HWY_INLINE void multiply_block(const Factors<E>& f, std::int64_t m, std::int64_t n) {
  using T = Accumulator<E>;
  constexpr std::int64_t in_lane = group<E>;
  const Tag<T> tag;
  Vector<T> sums[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[r][v] = hn::Zero(tag);
  const E* a = f.a + (by_column ? m * in_lane : m * f.a_step);
  const E* b = f.b + n * in_lane;
  for (std::int64_t k = 0; k < f.depth; ++k) {
    decltype(load_lanes(b)) right[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) right[v] = load_lanes(b + v * lanes<T> * in_lane);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const auto left = broadcast_lane(by_column ? a + r * in_lane : a + r * f.a_step);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sums[r][v] = add_products(left, right[v], sums[r][v]);
    }
    a += (by_column ? f.a_step : 1) * in_lane;
    b += f.b_step * in_lane;
  }
  T* c = f.c + m * f.c_step + n;
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      T* to = c + r * f.c_step + v * lanes<T>;
      hn::StoreU(add ? hn::Add(sums[r][v], hn::LoadU(tag, to)) : sums[r][v], tag, to);
    }
}

// multiply_block for any block of up to `block_rows` rows and `block_vectors` + 1 vectors.
// Dispatches through a table, so that loops need no template for each remainder.
template <bool by_column, bool add, typename E>
struct BlockTable {
  using Block = void (*)(const Factors<E>&, std::int64_t, std::int64_t);
  static constexpr int max_vectors = block_vectors + 1;
  Block blocks[block_rows][max_vectors] = {};

  template <int rows, int vectors>
  static void call(const Factors<E>& f, std::int64_t m, std::int64_t n) {
    multiply_block<by_column, add, rows, vectors>(f, m, n);
  }
  template <int index>
  constexpr void fill() {
    constexpr int rows = index / max_vectors + 1;
    constexpr int vectors = index % max_vectors + 1;
    if constexpr (fits(rows, vectors)) blocks[rows - 1][vectors - 1] = call<rows, vectors>;
    if constexpr (index > 0) fill<index - 1>();
  }
  constexpr BlockTable() { fill<block_rows * max_vectors - 1>(); }
  static constexpr bool fits(int rows, int vectors) {
    return vectors <= block_vectors || (rows + 1) * vectors + 1 <= block_registers;
  }
};

template <bool by_column, bool add, typename E>
inline void multiply_any(
    const Factors<E>& f, std::int64_t rows, std::int64_t vectors, std::int64_t m, std::int64_t n) {
  static constexpr BlockTable<by_column, add, E> table;
  table.blocks[rows - 1][vectors - 1](f, m, n);
}

struct Interval {
  std::int64_t begin;
  std::int64_t end;
};

// c += a b, where rows [m, m + r) of a are zero outside the elements depth_of(m, m + r). `width` is
// a multiple of a vector.
template <bool by_column, typename E, typename DepthOf>
void add_product(std::int64_t rows,
                 std::int64_t width,
                 const Factors<E>& f,
                 const DepthOf& depth_of) {
  constexpr std::int64_t in_vector = lanes<Accumulator<E>>;
  constexpr std::int64_t step = block_vectors * in_vector;
  for (std::int64_t n = 0; n < width; n += step)
    for (std::int64_t m = 0; m < rows; m += block_rows) {
      const std::int64_t count = std::min<std::int64_t>(block_rows, rows - m);
      const Interval elements = depth_of(m, m + count);
      if (elements.begin >= elements.end) continue;
      const std::int64_t begin = elements.begin / group<E>;
      Factors<E> part = f;
      part.depth = (elements.end + group<E> - 1) / group<E> - begin;
      part.a += group<E> * (by_column ? begin * f.a_step : begin);
      part.b += group<E> * begin * f.b_step;
      multiply_any<by_column, true>(part, count, std::min(step, width - n) / in_vector, m, n);
    }
}

// c = a b. Of rows [m, m + r), columns_of(m, m + r) are required; other columns may or may not be
// written.
template <typename E, typename ColumnsOf>
void product(std::int64_t rows, const Factors<E>& f, const ColumnsOf& columns_of) {
  constexpr std::int64_t in_vector = lanes<Accumulator<E>>;
  constexpr std::int64_t step = block_vectors * in_vector;
  for (std::int64_t m = 0; m < rows; m += block_rows) {
    const std::int64_t count = std::min<std::int64_t>(block_rows, rows - m);
    const Interval columns = columns_of(m, m + count);
    for (std::int64_t n = columns.begin / in_vector * in_vector; n < columns.end; n += step)
      multiply_any<false, false>(
          f, count, (std::min(step, columns.end - n) + in_vector - 1) / in_vector, m, n);
  }
}

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
