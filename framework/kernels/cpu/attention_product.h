// Products of small tiles that live in the first and second cache: the matrix work of tile
// attention. A library call costs too much at 64 x 64 x 64, and the strides here are its own: the
// left factor is read by rows or by columns, with any step, so a skewed band is a step one longer.
#pragma once

#include <hwy/highway.h>

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
inline constexpr int block_rows = 6;
inline constexpr int block_vectors = HWY_MAX_BYTES == 64 ? 4 : 2;

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

template <bool by_column, bool add, int vectors, typename T>
void multiply_columns(const Factors<T>& f, std::int64_t rows, std::int64_t n) {
  std::int64_t m = 0;
  for (; m + block_rows <= rows; m += block_rows)
    multiply_block<by_column, add, block_rows, vectors>(f, m, n);
  for (; m + 4 <= rows; m += 4) multiply_block<by_column, add, 4, vectors>(f, m, n);
  for (; m + 2 <= rows; m += 2) multiply_block<by_column, add, 2, vectors>(f, m, n);
  for (; m < rows; ++m) multiply_block<by_column, add, 1, vectors>(f, m, n);
}

// `width` is a multiple of a vector.
template <bool by_column, bool add, typename T>
void multiply(std::int64_t rows, std::int64_t width, const Factors<T>& f) {
  std::int64_t n = 0;
  for (; n + block_vectors * lanes<T> <= width; n += block_vectors * lanes<T>)
    multiply_columns<by_column, add, block_vectors>(f, rows, n);
  if constexpr (block_vectors > 2)
    for (; n + 2 * lanes<T> <= width; n += 2 * lanes<T>)
      multiply_columns<by_column, add, 2>(f, rows, n);
  for (; n < width; n += lanes<T>) multiply_columns<by_column, add, 1>(f, rows, n);
}

}  // namespace longspan::tile_attention
