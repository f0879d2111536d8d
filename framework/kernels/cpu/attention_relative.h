// The Transformer-XL term of a tile: (q_i + v) . r_{i + offset - j}.
//
// The tile of queries q0 .. and keys k0 .. needs the 127 distances around q0 + offset - k0. They
// are packed as a band whose column c holds distance origin + 63 - c, so that element (i, j) lies
// in column c = j + 63 - i: along a row c grows with j, and from one row to the next it shifts by
// one. The shift is then a matter of strides: a row of scores reads the band's product at an
// unaligned place, and a product over the band reads the tile of score gradients with a step that
// is one longer, where zeros stand on both sides of each row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/cpu/attention_problem.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

inline constexpr std::int64_t band = 2 * tile - 1;

// Rows of the register block for the band: 5 rows by 5 vectors cover 64 + 4 columns in 512 bits.
inline constexpr std::int64_t skew_rows = 5;

// Zeros on each side of a row of score gradients.
inline constexpr std::int64_t skew_margin = 16;
inline constexpr std::int64_t skew_step = tile + 2 * skew_margin;

template <typename T>
inline constexpr std::int64_t skew_width = padded<T>(tile + skew_rows - 1);
// As many vectors of it as the registers hold at once.
template <typename T>
inline constexpr std::int64_t skew_vectors = std::min<std::int64_t>(
    skew_width<T> / lanes<T>, block_registers == 32 ? block_vectors + 1 : block_vectors);
template <typename T>
inline constexpr std::int64_t band_step = padded<T>(tile + skew_width<T>);

template <typename E>
struct Band {
  std::int64_t origin = 0;
  bool valid = false;
  E* read = nullptr;        // [band + 1, dim_padded], row c: distance origin + 63 - c
  E* stacked = nullptr;     // the same stacked, where that is not the same
  E* columns = nullptr;     // [dim lanes, band_step] lanes, the transposed
  const E* rows = nullptr;  // read or stacked
};

// The bands last used: neighbouring tiles need the same ones.
template <typename In>
class Bands {
 public:
  using T = Accumulator<In>;
  using E = Element<In>;
  static constexpr std::int64_t slots = block_tiles;

  Bands(const Problem<In>& p, Carver& carver) : problem_(p) {
    if (!p.call.relative) return;
    for (auto& slot : bands_) {
      slot.read = carver.take<E>((band + 1) * p.dim_padded);
      if (group < E >> 1) slot.stacked = carver.take<E>((band + 1) * p.dim_padded);
      slot.columns = carver.take<E>(p.dim_padded * band_step<T>);
    }
  }

  // Bands belong to one head.
  void forget() {
    for (auto& slot : bands_) slot.valid = false;
  }

  // The band of the tile whose first query and first key are `origin` apart.
  const Band<E>& at(std::int64_t h, std::int64_t origin) {
    const std::int64_t number = origin >= 0 ? origin / tile : -((-origin + tile - 1) / tile);
    auto& slot = bands_[((number % slots) + slots) % slots];
    if (!slot.valid || slot.origin != origin) pack(h, origin, slot);
    return slot;
  }

 private:
  void pack(std::int64_t h, std::int64_t origin, Band<E>& slot) {
    const auto& p = problem_;
    const std::int64_t row = p.heads * p.dim;
    // Rows [begin, end) hold a distance that exists, from far to near.
    const std::int64_t farthest = origin + tile - 1;
    const std::int64_t begin = std::clamp(farthest - (p.keys - 1), std::int64_t{0}, band);
    const std::int64_t end = std::clamp(farthest + 1, begin, band);
    std::fill_n(slot.read, begin * p.dim_padded, E{});
    read_rows<In, E>({p.position_key_row(h, farthest - begin), -row},
                     end - begin,
                     p.dim,
                     nullptr,
                     slot.read + begin * p.dim_padded);
    std::fill(slot.read + end * p.dim_padded, slot.read + (band + 1) * p.dim_padded, E{});
    transpose(slot.read, band + 1, p.dim_padded, slot.columns, band_step<T>);
    for (std::int64_t k = 0; k < p.dim_padded / group<E>; ++k)
      std::fill(slot.columns + (k * band_step<T> + band + 1) * group<E>,
                slot.columns + (k + 1) * band_step<T> * group<E>,
                E{});
    slot.rows = stack(slot.read, band + 1, p.dim_padded, p.dim_padded, 0, slot.stacked);
    slot.origin = origin;
    slot.valid = true;
  }

  const Problem<In>& problem_;
  Band<E> bands_[slots];
};

// scores[i, j] += position_query[i] . r(i, j). scores: [rows, tile].
template <typename In>
void add_relative_scores(const Problem<In>& p,
                         const TileView& view,
                         const Element<In>* position_query,
                         const Band<Element<In>>& distances,
                         Accumulator<In>* scores) {
  using T = Accumulator<In>;
  using E = Element<In>;
  alignas(64) T block[skew_rows * skew_width<T>];
  const Tag<T> tag;
  const std::int64_t rows = view.rows();
  for (std::int64_t i = 0; i < rows; i += skew_rows) {
    const std::int64_t count = std::min(skew_rows, rows - i);
    const Interval seen = view.columns_seen(i, i + count);
    // Row i + r reads columns 63 - i - r + j: the block begins where its last row does.
    const std::int64_t first = tile - 1 - i - (count - 1);
    const Factors<E> factors{p.dim_lanes(),
                             position_query + i * p.dim_padded,
                             p.dim_padded,
                             distances.columns + first * group<E>,
                             band_step<T>,
                             block,
                             skew_width<T>};
    const std::int64_t end = (seen.end + count - 1 + lanes<T> - 1) / lanes<T>;
    for (std::int64_t n = seen.begin / lanes<T>; n < end; n += skew_vectors<T>)
      multiply_any<false, false>(
          factors, count, std::min(end - n, skew_vectors<T>), 0, n * lanes<T>);
    for (std::int64_t r = 0; r < count; ++r) {
      const T* shifted = block + r * skew_width<T> + (count - 1 - r);
      T* row = scores + (i + r) * tile;
      for (std::int64_t j = 0; j < tile; j += lanes<T>)
        hn::StoreU(hn::Add(hn::LoadU(tag, row + j), hn::LoadU(tag, shifted + j)), tag, row + j);
    }
  }
}

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
