// Element types of the factors of tile products. double, float and (converted) half are multiplied
// as accumulators, one for each lane. On a processor with bfloat16 products, bfloat16 is multiplied
// in pairs: a lane has two adjacent terms of the sum and adds both products, at half the cost.
// Otherwise bfloat16 is converted to float, as half is.
#pragma once

#include <hwy/highway.h>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "framework/core/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

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

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
