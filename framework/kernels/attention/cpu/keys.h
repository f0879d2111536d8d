// Validity and sorted positions of the keys of a tile and, together with the plan, the allowed
// pairs of a tile.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/attention/cpu/attention_problem.h"
#include "framework/kernels/attention/cpu/tile_view.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

// Bit j: compare(keys[j], value). keys: [tile].
template <typename Compare>
std::uint64_t lanes_where(const std::int32_t* keys, std::int32_t value, const Compare& compare) {
  const hn::ScalableTag<std::int32_t> tag;
  const auto other = hn::Set(tag, value);
  std::uint64_t word = 0;
  for (std::int64_t j = 0; j < tile; j += lanes<std::int32_t>) {
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(tag, compare(hn::Load(tag, keys + j), other), bits);
    std::uint64_t part = 0;
    std::memcpy(&part, bits, sizeof(part));
    word |= part << j;
  }
  return word;
}
inline std::uint64_t lanes_equal(const std::int32_t* keys, std::int32_t value) {
  return lanes_where(keys, value, [](auto a, auto b) HWY_ATTR { return hn::Eq(a, b); });
}
inline std::uint64_t lanes_up_to(const std::int32_t* keys, std::int32_t value) {
  return lanes_where(keys, value, [](auto a, auto b) HWY_ATTR { return hn::Not(hn::Gt(a, b)); });
}

// Padding rows are read as zeros, so that their contents (NaN, for example) cannot reach a product.
struct KeyLanes {
  std::uint64_t valid_mask = 0;             // bit j: the key exists and is not padding
  alignas(64) std::int32_t position[tile];  // original positions, if a rule or term needs them
  alignas(64) std::int32_t bucket[tile];

  bool any_visible() const { return valid_mask != 0; }
  bool all_visible() const { return valid_mask == all_bits; }

  template <typename In>
  void read(const Problem<In>& p, std::int64_t b, std::int64_t h, Interval at) {
    const std::int64_t count = at.end - at.begin;
    valid_mask = all_bits >> (tile - count);
    if (p.padding != nullptr)
      for (std::int64_t j = 0; j < count; ++j)
        if (p.padding[b * p.keys + at.begin + j] != 0) valid_mask &= ~(std::uint64_t{1} << j);
    if (p.length != nullptr) {
      const std::int64_t real = p.length[b] - p.call.mask.key_begin - at.begin;
      valid_mask &= real <= 0 ? 0 : real >= tile ? all_bits : ~(all_bits << real);
    }
    if (!p.needs_positions()) return;
    const auto& sorted = p.call.mask.sorted;
    for (std::int64_t j = 0; j < tile; ++j)
      position[j] = static_cast<std::int32_t>(p.call.mask.key_begin + at.begin + j);
    if (!sorted) return;
    std::copy_n(Problem<In>::integers(sorted->key_position, b, h, at.begin), count, position);
    for (std::int64_t j = 0; j < count; ++j)
      if (position[j] < 0) valid_mask &= ~(std::uint64_t{1} << j);
    if (sorted->key_bucket.defined())
      std::copy_n(Problem<In>::integers(sorted->key_bucket, b, h, at.begin), count, bucket);
  }
};

// Reads a tile of keys or values: [tile, padded width], zeros at padding and missing keys.
template <typename In, typename E>
void read_key_tile(
    Rows<const In> from, Interval at, std::int64_t width, std::uint64_t seen, E* to) {
  const std::int64_t step = padded<E>(width);
  const std::int64_t rows = at.end - at.begin;
  read_rows<In, E>(from, rows, width, nullptr, to);
  std::fill(to + rows * step, to + tile * step, E{});
  if (seen == all_bits) return;
  for (std::int64_t j = 0; j < rows; ++j)
    if ((seen >> j & 1) == 0) std::fill_n(to + j * step, step, E{});
}

// All bits except the first `hidden`.
inline std::uint64_t bits_from(std::int64_t hidden) {
  return hidden <= 0 ? all_bits : hidden >= tile ? 0 : all_bits << hidden;
}

// Intersects the tile that a plan lists as `planned` with padding, lookback and sorted positions.
// bits: [tile], filled for a partial tile.
template <typename In>
TileView view_of(const Problem<In>& p,
                 std::int64_t b,
                 std::int64_t h,
                 Interval queries,
                 Interval keys,
                 TileKind planned,
                 const KeyLanes& visible_lanes,
                 std::uint64_t* bits) {
  const auto& mask = p.call.mask;
  TileView view{
      queries, keys, mask.query_begin + queries.begin - mask.key_begin - keys.begin, planned, bits};
  const std::int64_t rows = view.rows();
  const bool has_ends = p.max_lookback != nullptr && p.first_key(b, queries.end - 1) > keys.begin;
  if (has_ends && p.first_key(b, queries.begin) >= keys.end) {
    view.kind = TileKind::none;
    return view;
  }
  if (planned == TileKind::full) {
    if (visible_lanes.all_visible() && !mask.sorted && !has_ends) return view;
    std::fill_n(bits, rows, all_bits);
  } else {
    p.plan(h).tile_bits(mask.query_begin + queries.begin,
                        rows,
                        mask.key_begin + keys.begin,
                        keys.end - keys.begin,
                        bits);
  }
  std::uint64_t some = 0;
  std::uint64_t every = all_bits;
  for (std::int64_t r = 0; r < rows; ++r) {
    bits[r] &= visible_lanes.valid_mask;
    if (has_ends) bits[r] &= bits_from(p.first_key(b, queries.begin + r) - keys.begin);
    if (mask.sorted && bits[r] != 0)
      bits[r] &= sorted_bits(p, b, h, queries.begin + r, visible_lanes);
    some |= bits[r];
    every &= bits[r];
  }
  view.kind = some == 0 ? TileKind::none : every == all_bits ? TileKind::full : TileKind::partial;
  return view;
}

// Bits of the keys of a tile that are visible to a query of a sorted sequence.
template <typename In>
std::uint64_t sorted_bits(const Problem<In>& p,
                          std::int64_t b,
                          std::int64_t h,
                          std::int64_t query,
                          const KeyLanes& keys) {
  const SortedSequence& sorted = *p.call.mask.sorted;
  const std::int32_t position = p.query_position(b, h, query);
  if (position < 0) return 0;
  std::uint64_t word = sorted.causal ? lanes_up_to(keys.position, position) : all_bits;
  if (sorted.query_bucket.defined())
    word &= lanes_equal(keys.bucket, *Problem<In>::integers(sorted.query_bucket, b, h, query));
  return word;
}

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
