// Row operations of a tile other than products: conversion to accumulators, transposition,
// exponentials, output.
#pragma once

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "framework/core/dtype.h"
#include "framework/kernels/attention/cpu/tile_gemm.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

// Queries and keys in a tile; the operands of one product fill the L1 cache.
inline constexpr std::int64_t tile = 64;

template <typename T>
inline constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

// Scores have the units in which `exponential` is cheapest: ln 2 in float, 1 in double.
template <typename T>
inline constexpr T score_units = std::is_same_v<T, float> ? T(1.44269504088896340736) : T{1};

// Returns 2^x for x <= 127 within 2 ulp; 0 below -126 and for -infinity; NaN stays NaN.
HWY_INLINE Vector<float> fast_exp(Vector<float> x) {
  const Tag<float> tag;
  const hn::RebindToSigned<Tag<float>> integers;
  const auto small = hn::Lt(x, hn::Set(tag, -126.0f));
  const auto shifted = hn::Add(x, hn::Set(tag, 0x1.8p23f));  // rounds: its last bit has value 1
  const auto f = hn::Sub(x, hn::Sub(shifted, hn::Set(tag, 0x1.8p23f)));
  auto p = hn::Set(tag, 0.0013276471979f);
  p = hn::MulAdd(p, f, hn::Set(tag, 0.0096755413342f));
  p = hn::MulAdd(p, f, hn::Set(tag, 0.0555071327354f));
  p = hn::MulAdd(p, f, hn::Set(tag, 0.2402211972385f));
  p = hn::MulAdd(p, f, hn::Set(tag, 0.6931469670647f));
  p = hn::MulAdd(p, f, hn::Set(tag, 1.0000000716547f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(integers, shifted));
  const auto power = hn::BitCast(tag, hn::Add(hn::BitCast(integers, p), exponent));
  return hn::IfThenZeroElse(small, power);
}
// Returns e^x.
HWY_INLINE Vector<double> fast_exp(Vector<double> x) { return hn::Exp(Tag<double>(), x); }

template <typename T>
inline T exponential_of(T x) {
  return hn::GetLane(fast_exp(hn::Set(Tag<T>(), x)));
}
// The inverse of `exponential`, in units of 1.
template <typename T>
inline T fast_log(T maximum, T sum) {
  return maximum / score_units<T> + std::log(sum);
}

// The rows of a matrix, with stride `step`.
template <typename Element>
struct Rows {
  Element* data;
  std::int64_t step;
  Element* row(std::int64_t i) const { return data + i * step; }
};

// to[r, c] = from[r, c] (+ bias[c]); columns from `width` to the padded width become 0.
template <typename In, typename E>
void read_rows(
    Rows<const In> from, std::int64_t rows, std::int64_t width, const Accumulator<E>* bias, E* to) {
  using T = Accumulator<E>;
  const std::int64_t step = padded<E>(width);
  for (std::int64_t r = 0; r < rows; ++r) {
    const In* source = from.row(r);
    E* target = to + r * step;
    // The hardware prefetcher does not predict the start of distant rows.
    for (std::int64_t c = 0; c < width; c += 64 / static_cast<std::int64_t>(sizeof(In)))
      __builtin_prefetch(source + 4 * from.step + c);
    if (bias != nullptr)
      for (std::int64_t c = 0; c < width; ++c)
        target[c] = static_cast<E>(static_cast<T>(source[c]) + bias[c]);
    else if constexpr (std::is_same_v<In, E>)
      std::copy_n(source, width, target);
    else
      for (std::int64_t c = 0; c < width; ++c) target[c] = static_cast<T>(source[c]);
    for (std::int64_t c = width; c < step; ++c) target[c] = E{};
  }
}

template <typename E, typename In>
inline Accumulator<E> dot(const E* a, const In* b, std::int64_t width) {
  using T = Accumulator<E>;
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += static_cast<T>(a[c]) * static_cast<T>(b[c]);
  return sum;
}

template <typename T, typename Out>
void write_row(const T* from, std::int64_t width, T factor, Out* to, bool add = false) {
  if (add)
    for (std::int64_t c = 0; c < width; ++c)
      to[c] = static_cast<Out>(static_cast<T>(to[c]) + factor * from[c]);
  else
    for (std::int64_t c = 0; c < width; ++c) to[c] = static_cast<Out>(factor * from[c]);
}

// One step of a transposition in registers: rows r and r + distance exchange the halves that lie on
// the wrong side. Indices at and above `n` denote the second row.
template <int distance, typename V, std::size_t... lane>
HWY_INLINE void exchange(V& a, V& b, std::index_sequence<lane...>) {
  constexpr int n = static_cast<int>(sizeof...(lane));
  const V low = __builtin_shufflevector(
      a,
      b,
      ((lane & distance) == 0 ? static_cast<int>(lane) : static_cast<int>(lane) - distance + n)...);
  b = __builtin_shufflevector(
      a,
      b,
      ((lane & distance) == 0 ? static_cast<int>(lane) + distance : static_cast<int>(lane) + n)...);
  a = low;
}

template <int distance, typename V, int n>
HWY_INLINE void transpose_steps(V (&rows)[n]) {
  if constexpr (distance < n) {
#pragma GCC unroll 16
    for (int r = 0; r < n; ++r)
      if ((r & distance) == 0)
        exchange<distance>(rows[r], rows[r + distance], std::make_index_sequence<n>());
    transpose_steps<distance * 2>(rows);
  }
}

// Lanes: to[c, r] = from[r, c] for `rows` and `columns` that are multiples of a vector.
template <typename T>
void transpose_lanes(const T* from,
                     std::int64_t from_step,
                     std::int64_t rows,
                     std::int64_t columns,
                     T* to,
                     std::int64_t to_step) {
  constexpr int n = static_cast<int>(lanes<T>);
  typedef T Block __attribute__((vector_size(sizeof(T) * n)));
  for (std::int64_t c = 0; c < columns; c += n)
    for (std::int64_t r = 0; r < rows; r += n) {
      Block block[n];
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i)
        __builtin_memcpy(&block[i], from + (r + i) * from_step + c, sizeof(Block));
      transpose_steps<1>(block);
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i)
        __builtin_memcpy(to + (c + i) * to_step + r, &block[i], sizeof(Block));
    }
}

// Rows of elements as a stacked factor whose sum runs along the rows: [columns / group, to_step]
// lanes. `columns` is a padded width and the stride of `from`.
template <typename E>
void transpose(
    const E* from, std::int64_t rows, std::int64_t columns, E* to, std::int64_t to_step) {
  if constexpr (group<E> == 1)
    transpose_lanes(from, columns, rows, columns, to, to_step);
  else  // only moved, never interpreted
    transpose_lanes(reinterpret_cast<const float*>(from),
                    columns / group<E>,
                    rows,
                    columns / group<E>,
                    reinterpret_cast<float*>(to),
                    to_step);
}

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
