// Products of keys with the rows of a relative-position table: k_j . a_{p - k} in the score of
// query i and key j.
//
// A tile is reflected over the diagonal that starts at its last query and first key: rows are keys
// and columns are queries, both in descending order. Its element (j', i') has j' = 63 - j and i' =
// 63 - i. It is in column i' + 63 - j' = j + 63 - i of the band, as the pair (i, j) is. The code
// that multiplies queries by a band therefore also multiplies reversed keys by it.
#pragma once

#include "framework/kernels/attention/cpu/relative_tables.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

// All of its pairs are computed: pairs beyond the queries and masked pairs are zero or not read.
inline TileView reflected_view(const TileView& view) {
  return {.queries = {0, tile}, .keys = {0, tile}, .origin = view.origin, .kind = TileKind::full};
}

// to: [tile, width_padded], the rows in reverse order.
template <typename E>
void reverse_rows(const E* rows, std::int64_t width_padded, E* to) {
  for (std::int64_t j = 0; j < tile; ++j)
    std::copy_n(rows + (tile - 1 - j) * width_padded, width_padded, to + j * width_padded);
}

// scores[i, j] += key j . row(i, j) of the band. turned: [tile, width_padded] of `depth` lanes, the
// reversed keys; products: [tile, tile], workspace.
template <typename E>
void add_key_distance_products(const TileView& view,
                               const E* turned,
                               std::int64_t depth,
                               std::int64_t width_padded,
                               const Band<E>& distances,
                               Accumulator<E>* products,
                               Accumulator<E>* scores) {
  std::fill_n(products, tile * tile, Accumulator<E>{0});
  add_distance_products(reflected_view(view), turned, depth, width_padded, distances, products);
  for (std::int64_t i = 0; i < view.rows(); ++i)
    for (std::int64_t j = 0; j < tile; ++j)
      scores[i * tile + j] += products[(tile - 1 - j) * tile + tile - 1 - i];
}

// to: [tile, skew_step], the reflected factors with zeros in the margins. factors: [rows,
// skew_step] with margins.
template <typename E>
void reflect_factors(const TileView& view, const E* factors, E* to) {
  for (std::int64_t j = 0; j < tile; ++j) {
    E* const row = to + j * skew_step + skew_margin;
    const E* const column = factors + skew_margin + tile - 1 - j;
    std::fill_n(row, tile - view.rows(), E{});
    for (std::int64_t i = tile - view.rows(); i < tile; ++i)
      row[i] = column[(tile - 1 - i) * skew_step];
  }
}

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
