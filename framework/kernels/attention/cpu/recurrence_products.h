// Products of small matrices with the state of a recurrence, in rows with a stride.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "framework/kernels/attention/cpu/tile_gemm.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::recurrence_cpu {

namespace hn = hwy::HWY_NAMESPACE;
using tile_attention::lanes;
using tile_attention::Tag;

// A matrix of rows with a stride.
template <typename T>
struct Matrix {
  T* data;
  std::int64_t step;

  T* row(std::int64_t i) const { return data + i * step; }
};

enum class Store : std::uint8_t { replace, add };

// c [rows, width] = a b, or added to c, with a [rows, depth] and b [depth, width]. by_column: a is
// stored transposed. width: a multiple of a vector.
template <bool by_column, Store store, typename T>
void multiply(std::int64_t rows,
              std::int64_t depth,
              std::int64_t width,
              const Matrix<T>& a,
              const Matrix<T>& b,
              const Matrix<T>& c) {
  constexpr std::int64_t step = tile_attention::block_vectors * lanes<T>;
  const tile_attention::Factors<T> factors = {
      depth, a.data, a.step, b.data, b.step, c.data, c.step};
  for (std::int64_t n = 0; n < width; n += step)
    for (std::int64_t m = 0; m < rows; m += tile_attention::block_rows)
      tile_attention::multiply_any<by_column, store == Store::add>(
          factors,
          std::min<std::int64_t>(tile_attention::block_rows, rows - m),
          std::min(step, width - n) / lanes<T>,
          m,
          n);
}

// Tokens whose outer products of a row of a and a row of b are added to a state.
template <typename T>
struct OuterProducts {
  std::int64_t count;
  Matrix<T> a, b;
};

// Rows [c, c + rows) and `vectors` vectors of a state from column v on: next = scale state + the
// sums of products. scale: one factor of each row.
template <std::int64_t rows, std::int64_t vectors, typename T, std::size_t terms>
HWY_INLINE void update_block(const Matrix<T>& state,
                             const Matrix<T>& next,
                             std::int64_t c,
                             std::int64_t v,
                             const std::array<T, rows>& scale,
                             const std::array<OuterProducts<T>, terms>& products) {
  const Tag<T> tag;
  tile_attention::Vector<T> sums[rows][vectors];
#pragma GCC unroll 8
  for (std::int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (std::int64_t n = 0; n < vectors; ++n)
      sums[r][n] = hn::Mul(hn::Set(tag, scale[static_cast<std::size_t>(r)]),
                           hn::LoadU(tag, state.row(c + r) + v + n * lanes<T>));
  for (const auto& [count, a, b] : products)
    for (std::int64_t j = 0; j < count; ++j) {
      const T* const right = b.row(j) + v;
      const T* const left = a.row(j) + c;
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (std::int64_t n = 0; n < vectors; ++n)
          sums[r][n] =
              hn::MulAdd(hn::Set(tag, left[r]), hn::LoadU(tag, right + n * lanes<T>), sums[r][n]);
    }
#pragma GCC unroll 8
  for (std::int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (std::int64_t n = 0; n < vectors; ++n)
      hn::StoreU(sums[r][n], tag, next.row(c + r) + v + n * lanes<T>);
}

// next = scale state + the sums of products. state [keys, state.step]; next: as state, or state
// itself; scale(c): of row c.
template <typename T, std::size_t terms, typename Scale>
void update_state(std::int64_t keys,
                  const Matrix<T>& state,
                  const Matrix<T>& next,
                  const Scale& scale,
                  const std::array<OuterProducts<T>, terms>& products) {
  constexpr bool has_32_registers = tile_attention::block_registers == 32;
  constexpr std::int64_t rows = has_32_registers ? 8 : 4, vectors = has_32_registers ? 1 : 2;
  std::int64_t v = 0;
  const auto columns = [&]<std::int64_t n>(std::integral_constant<std::int64_t, n>) HWY_ATTR {
    std::int64_t c = 0;
    std::array<T, rows> scales;
    for (; c + rows <= keys; c += rows) {
      for (std::int64_t r = 0; r < rows; ++r) scales[static_cast<std::size_t>(r)] = scale(c + r);
      update_block<rows, n>(state, next, c, v, scales, products);
    }
    for (; c < keys; ++c)
      update_block<1, n>(state, next, c, v, std::array<T, 1>{scale(c)}, products);
    v += n * lanes<T>;
  };
  while (v + vectors * lanes<T> <= state.step)
    columns(std::integral_constant<std::int64_t, vectors>());
  while (v < state.step) columns(std::integral_constant<std::int64_t, 1>());
}

#if HWY_MAX_BYTES >= 16
// Stores each block of 16 bytes of x to a row of `to`.
template <typename D, typename V, typename T>
HWY_INLINE void store_blocks(D tag, V x, T* to, std::int64_t step) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) == 16) {
    hn::StoreU(x, tag, to);
  } else {
    const hn::Half<D> half;
    constexpr std::int64_t rows = hn::MaxLanes(D()) * sizeof(T) / 32;
    store_blocks(half, hn::LowerHalf(half, x), to, step);
    store_blocks(half, hn::UpperHalf(half, x), to + rows * step, step);
  }
}
#endif

// to[j, i] = from[i, j]. columns: a multiple of a vector. Also reads and writes the rows up to the
// next multiple of 4.
template <typename T>
void transpose(std::int64_t rows,
               std::int64_t columns,
               const Matrix<T>& from,
               const Matrix<T>& to) {
#if HWY_MAX_BYTES < 16
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to.row(j)[i] = from.row(i)[j];
#else
  const Tag<T> tag;
  // Successive blocks of a vector hold columns that are `in_block` apart.
  constexpr std::int64_t in_block = 16 / sizeof(T);
  for (std::int64_t i = 0; i < rows; i += in_block)
    for (std::int64_t j = 0; j < columns; j += lanes<T>) {
      const auto row = [&](std::int64_t r) HWY_ATTR { return hn::LoadU(tag, from.row(i + r) + j); };
      const auto store = [&](auto x, std::int64_t column) HWY_ATTR {
        store_blocks(tag, hn::BitCast(tag, x), to.row(j + column) + i, in_block * to.step);
      };
      if constexpr (in_block == 2) {
        store(hn::InterleaveLower(tag, row(0), row(1)), 0);
        store(hn::InterleaveUpper(tag, row(0), row(1)), 1);
      } else {
        const hn::RepartitionToWide<hn::RebindToUnsigned<Tag<T> > > wide_tag;
        const auto low = [&](std::int64_t r) HWY_ATTR {
          return hn::BitCast(wide_tag, hn::InterleaveLower(tag, row(r), row(r + 1)));
        };
        const auto high = [&](std::int64_t r) HWY_ATTR {
          return hn::BitCast(wide_tag, hn::InterleaveUpper(tag, row(r), row(r + 1)));
        };
        store(hn::InterleaveLower(wide_tag, low(0), low(2)), 0);
        store(hn::InterleaveUpper(wide_tag, low(0), low(2)), 1);
        store(hn::InterleaveLower(wide_tag, high(0), high(2)), 2);
        store(hn::InterleaveUpper(wide_tag, high(0), high(2)), 3);
      }
    }
#endif
}

// to += factor * from; `width` is a multiple of a vector.
template <typename T>
HWY_INLINE void add_scaled(T factor, const T* from, T* to, std::int64_t width) {
  const Tag<T> tag;
  const auto f = hn::Set(tag, factor);
  for (std::int64_t i = 0; i < width; i += lanes<T>)
    hn::StoreU(hn::MulAdd(f, hn::LoadU(tag, from + i), hn::LoadU(tag, to + i)), tag, to + i);
}

}  // namespace longspan::recurrence_cpu
HWY_AFTER_NAMESPACE();
