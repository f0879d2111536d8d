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

namespace longspan::tile_attention {

inline constexpr std::int64_t band = 2 * tile - 1;

// Rows of the register block for the band: 5 rows by 5 vectors cover 64 + 4 columns in 512 bits.
inline constexpr std::int64_t skew_rows = 5;

// Zeros on each side of a row of score gradients.
template <typename T>
inline constexpr std::int64_t skew_margin = 16;
template <typename T>
inline constexpr std::int64_t skew_step = tile + 2 * skew_margin<T>;

template <typename T>
inline constexpr std::int64_t skew_width = padded<T>(tile + skew_rows - 1);
// As many vectors of it as the registers hold at once.
template <typename T>
inline constexpr std::int64_t skew_vectors = std::min<std::int64_t>(
    skew_width<T> / lanes<T>, block_registers == 32 ? block_vectors + 1 : block_vectors);
template <typename T>
inline constexpr std::int64_t band_step = padded<T>(tile + skew_width<T>);

template <typename T>
struct Band {
  std::int64_t origin = 0;
  bool valid = false;
  T* rows = nullptr;     // [band + 1, dim_padded], row c: distance origin + 63 - c
  T* columns = nullptr;  // [dim_padded, band_step], the same transposed
};

// The bands last used: neighbouring tiles need the same ones.
template <typename In>
class Bands {
 public:
  using T = Accumulator<In>;
  static constexpr std::int64_t slots = 2 * block_tiles;

  Bands(const Problem<In>& p, Carver& carver) : problem_(p) {
    if (!p.call.relative) return;
    for (auto& slot : bands_) {
      slot.rows = carver.take<T>((band + 1) * p.dim_padded);
      slot.columns = carver.take<T>(p.dim_padded * band_step<T>);
    }
  }

  // Bands belong to one head.
  void forget() {
    for (auto& slot : bands_) slot.valid = false;
  }

  // The band of the tile whose first query and first key are `origin` apart.
  const Band<T>& at(std::int64_t h, std::int64_t origin) {
    const std::int64_t number = origin >= 0 ? origin / tile : -((-origin + tile - 1) / tile);
    auto& slot = bands_[((number % slots) + slots) % slots];
    if (!slot.valid || slot.origin != origin) pack(h, origin, slot);
    return slot;
  }

 private:
  void pack(std::int64_t h, std::int64_t origin, Band<T>& slot) {
    const auto& p = problem_;
    const Tensor& table = p.call.relative->position_key;
    const In* keys = table.template data<In>();
    const std::int64_t distances = table.shape()[0];
    for (std::int64_t c = 0; c <= band; ++c) {
      const std::int64_t distance = origin + tile - 1 - c;
      T* row = slot.rows + c * p.dim_padded;
      if (c < band && 0 <= distance && distance < distances)
        read_rows<In, T>({keys + (distance * p.heads + h) * p.dim, 0}, 1, p.dim, nullptr, row);
      else
        std::fill_n(row, p.dim_padded, T{0});
    }
    transpose(slot.rows, p.dim_padded, band + 1, p.dim_padded, slot.columns, band_step<T>);
    for (std::int64_t k = 0; k < p.dim_padded; ++k)
      std::fill(
          slot.columns + k * band_step<T> + band + 1, slot.columns + (k + 1) * band_step<T>, T{0});
    slot.origin = origin;
    slot.valid = true;
  }

  const Problem<In>& problem_;
  Band<T> bands_[slots];
};

// scores[i, j] += position_query[i] . r(i, j). scores: [rows, tile].
template <typename T>
void add_relative_scores(const TileView& view,
                         std::int64_t dim_padded,
                         const T* position_query,
                         const Band<T>& distances,
                         T* scores) {
  alignas(64) T block[skew_rows * skew_width<T>];
  const Tag<T> tag;
  const std::int64_t rows = view.rows();
  for (std::int64_t i = 0; i < rows; i += skew_rows) {
    const std::int64_t count = std::min(skew_rows, rows - i);
    const Interval seen = view.columns_seen(i, i + count);
    // Row i + r reads columns 63 - i - r + j: the block begins where its last row does.
    const std::int64_t first = tile - 1 - i - (count - 1);
    const Factors<T> factors{dim_padded,
                             position_query + i * dim_padded,
                             dim_padded,
                             distances.columns + first,
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
