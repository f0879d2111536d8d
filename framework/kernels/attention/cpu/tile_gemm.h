// Matrix products of tiled attention, on tiles that fit in the L1 and L2 caches. A library call has
// too much overhead at 64 x 64 x 64. The left factor is read by rows or by columns, with any
// stride, so that a skewed band is a stride larger by one.
#pragma once

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "framework/core/dtype.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();

namespace longspan::tile_attention {

// Element types of the factors of tile products. double, float and (converted) half are multiplied
// as accumulators, one for each lane. On a processor with bfloat16 products, bfloat16 is multiplied
// in pairs: a lane has two adjacent terms of the sum and adds both products, at half the cost.
// Otherwise bfloat16 is converted to float, as half is.

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
using Vector = hn::Vec<Tag<T>>;
template <typename T>
inline constexpr std::int64_t lanes = static_cast<std::int64_t>(HWY_MAX_BYTES / sizeof(T));

#if defined(__AVX512BF16__)
inline constexpr bool bfloat16_units = HWY_MAX_BYTES == 64;
#else
inline constexpr bool bfloat16_units = false;
#endif

// The factor element type for inputs of type In.
template <typename In>
using Element =
    std::conditional_t<bfloat16_units && std::is_same_v<In, BFloat16>, BFloat16, Accumulator<In>>;

// Adjacent terms of the sum that share a lane.
template <typename E>
inline constexpr std::int64_t group = std::is_same_v<E, BFloat16> ? 2 : 1;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}
// Rows of factors are zero-padded to full vectors of lanes.
template <typename E>
constexpr std::int64_t padded(std::int64_t width) {
  return round_up(width, lanes<Accumulator<E>> * group<E>);
}

// Broadcasts one lane (the group that begins at `from`), or loads a vector of lanes.
template <typename E>
HWY_INLINE auto broadcast_lane(const E* from) {
  if constexpr (group<E> == 1) {
    return hn::Set(Tag<E>(), *from);
  } else {
    std::uint32_t pair;
    std::memcpy(&pair, from, sizeof(pair));
    return hn::Set(Tag<std::uint32_t>(), pair);
  }
}
template <typename E>
HWY_INLINE auto load_lanes(const E* from) {
  if constexpr (group<E> == 1)
    return hn::LoadU(Tag<E>(), from);
  else
    return hn::LoadU(Tag<std::uint32_t>(), reinterpret_cast<const std::uint32_t*>(from));
}

// Returns sum + the products of each lane.
template <typename V>
HWY_INLINE V add_products(V a, V b, V sum) {
  return hn::MulAdd(a, b, sum);
}
#if defined(__AVX512BF16__)
HWY_INLINE Vector<float> add_products(Vector<std::uint32_t> a,
                                      Vector<std::uint32_t> b,
                                      Vector<float> sum) {
  return Vector<float>{_mm512_dpbf16_ps(
      sum.raw, reinterpret_cast<__m512bh>(a.raw), reinterpret_cast<__m512bh>(b.raw))};
}
#endif

// Rounds accumulators to elements; returns `from` unchanged if the types are equal. `elements` is a
// multiple of two vectors.
template <typename E, typename T>
inline const E* narrow(const T* from,
                       [[maybe_unused]] std::int64_t elements,
                       [[maybe_unused]] E* to) {
  if constexpr (std::is_same_v<E, T>) {
    return from;
  } else {
#if defined(__AVX512BF16__)
    for (std::int64_t i = 0; i < elements; i += 32) {
      const auto low = _mm512_loadu_ps(from + i);
      const auto high = _mm512_loadu_ps(from + i + 16);
      const auto both = _mm512_cvtne2ps_pbh(high, low);
      _mm512_storeu_si512(to + i, reinterpret_cast<__m512i>(both));
    }
#endif
    return to;
  }
}

// Interleaves ("stacks") rows for sums over the rows, so that adjacent terms share a lane:
// to[k][n][g] = from[group * k + g][n + g * shift]. rows is a multiple of the group, width of a
// vector. With one element for each lane, returns `from` unchanged.
template <typename E>
inline const E* stack(const E* from,
                      [[maybe_unused]] std::int64_t rows,
                      [[maybe_unused]] std::int64_t width,
                      [[maybe_unused]] std::int64_t step,
                      [[maybe_unused]] std::int64_t shift,
                      [[maybe_unused]] E* to) {
  if constexpr (group<E> == 1) {
    return from;
  } else {
    const Tag<std::uint32_t> pairs;
    const hn::Rebind<std::uint16_t, decltype(pairs)> halves;
    for (std::int64_t r = 0; r < rows; r += 2)
      for (std::int64_t n = 0; n < width; n += lanes<float>) {
        const auto* even = reinterpret_cast<const std::uint16_t*>(from + r * step + n);
        const auto* odd = reinterpret_cast<const std::uint16_t*>(from + (r + 1) * step + n + shift);
        const auto low = hn::PromoteTo(pairs, hn::LoadU(halves, even));
        const auto high = hn::ShiftLeft<16>(hn::PromoteTo(pairs, hn::LoadU(halves, odd)));
        hn::StoreU(
            hn::Or(low, high), pairs, reinterpret_cast<std::uint32_t*>(to + r * width + 2 * n));
      }
    return to;
  }
}

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
