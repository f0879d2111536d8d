// Products of small tiles that live in the first and second cache: the matrix work of tile
// attention. A library call costs too much at 64 x 64 x 64, and the strides here are its own: the
// left factor is read by rows or by columns, with any step, so a skewed band is a step one longer.
#pragma once

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

namespace longspan::tile_attention {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
using Vector = hn::Vec<Tag<T>>;
template <typename T>
inline constexpr std::int64_t lanes = static_cast<std::int64_t>(HWY_MAX_BYTES / sizeof(T));

// The next multiple of a vector: rows of tiles are padded to it, and the padding is finite.
template <typename T>
constexpr std::int64_t padded(std::int64_t width) {
  return (width + lanes<T> - 1) / lanes<T> * lanes<T>;
}

// The register block: 6 x 4 accumulators where there are 32 registers, 6 x 2 where there are 16.
inline constexpr int block_registers = HWY_MAX_BYTES == 64 ? 32 : 16;
inline constexpr int block_rows = 6;
inline constexpr int block_vectors = block_registers == 32 ? 4 : 2;

// c[m, n] = sum_k a(m, k) b[k, n], or added to c. a(m, k) is a[m * a_step + k], or by column
// a[k * a_step + m]. b: [depth, b_step], c: [rows, c_step].
template <typename T>
struct Factors {
  std::int64_t depth;
  const T* a;
  std::int64_t a_step;
  const T* b;
  std::int64_t b_step;
  T* c;
  std::int64_t c_step;
};

template <bool by_column, bool add, int rows, int vectors, typename T>
HWY_INLINE void multiply_block(const Factors<T>& f, std::int64_t m, std::int64_t n) {
  const Tag<T> tag;
  Vector<T> sums[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[r][v] = hn::Zero(tag);
  const T* a = f.a + (by_column ? m : m * f.a_step);
  const T* b = f.b + n;
  for (std::int64_t k = 0; k < f.depth; ++k) {
    Vector<T> right[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) right[v] = hn::LoadU(tag, b + v * lanes<T>);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const auto left = hn::Set(tag, by_column ? a[r] : a[r * f.a_step]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sums[r][v] = hn::MulAdd(left, right[v], sums[r][v]);
    }
    a += by_column ? f.a_step : 1;
    b += f.b_step;
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

// multiply_block for any block of up to `block_rows` rows and `block_vectors` + 1 vectors that the
// registers hold: a call through a table, so that loops need no template for each size of rest.
template <bool by_column, bool add, typename T>
struct BlockTable {
  using Block = void (*)(const Factors<T>&, std::int64_t, std::int64_t);
  static constexpr int most_vectors = block_vectors + 1;
  Block blocks[block_rows][most_vectors] = {};

  template <int rows, int vectors>
  static void call(const Factors<T>& f, std::int64_t m, std::int64_t n) {
    multiply_block<by_column, add, rows, vectors>(f, m, n);
  }
  template <int index>
  constexpr void fill() {
    constexpr int rows = index / most_vectors + 1;
    constexpr int vectors = index % most_vectors + 1;
    if constexpr (fits(rows, vectors)) blocks[rows - 1][vectors - 1] = call<rows, vectors>;
    if constexpr (index > 0) fill<index - 1>();
  }
  constexpr BlockTable() { fill<block_rows * most_vectors - 1>(); }
  static constexpr bool fits(int rows, int vectors) {
    return vectors <= block_vectors || (rows + 1) * vectors + 1 <= block_registers;
  }
};

template <bool by_column, bool add, typename T>
inline void multiply_any(
    const Factors<T>& f, std::int64_t rows, std::int64_t vectors, std::int64_t m, std::int64_t n) {
  static constexpr BlockTable<by_column, add, T> table;
  table.blocks[rows - 1][vectors - 1](f, m, n);
}

struct Interval {
  std::int64_t begin;
  std::int64_t end;
};

// c += a b, where rows [m, m + r) of a are zero outside the columns depth_of(m, m + r). `width` is
// a multiple of a vector.
template <bool by_column, typename T, typename DepthOf>
void add_product(std::int64_t rows,
                 std::int64_t width,
                 const Factors<T>& f,
                 const DepthOf& depth_of) {
  constexpr std::int64_t step = block_vectors * lanes<T>;
  for (std::int64_t n = 0; n < width; n += step)
    for (std::int64_t m = 0; m < rows; m += block_rows) {
      const std::int64_t count = std::min<std::int64_t>(block_rows, rows - m);
      const Interval depth = depth_of(m, m + count);
      if (depth.begin >= depth.end) continue;
      Factors<T> part = f;
      part.depth = depth.end - depth.begin;
      part.a += by_column ? depth.begin * f.a_step : depth.begin;
      part.b += depth.begin * f.b_step;
      multiply_any<by_column, true>(part, count, std::min(step, width - n) / lanes<T>, m, n);
    }
}

// c = a b where columns_of(m, m + r) of rows [m, m + r) are wanted; others may or may not be
// written.
template <typename T, typename ColumnsOf>
void product(std::int64_t rows, const Factors<T>& f, const ColumnsOf& columns_of) {
  constexpr std::int64_t step = block_vectors * lanes<T>;
  for (std::int64_t m = 0; m < rows; m += block_rows) {
    const std::int64_t count = std::min<std::int64_t>(block_rows, rows - m);
    const Interval columns = columns_of(m, m + count);
    for (std::int64_t n = columns.begin / lanes<T> * lanes<T>; n < columns.end; n += step)
      multiply_any<false, false>(
          f, count, (std::min(step, columns.end - n) + lanes<T> - 1) / lanes<T>, m, n);
  }
}

}  // namespace longspan::tile_attention
