// Products of a tile with the rows of a relative-position table: (q_i + v) . r_{p - k} of
// Transformer-XL, and Shaw's key and value tables.
//
// The tile of queries p0 .. and keys k0 .. needs the 127 relative positions around p0 - k0. They
// are packed as a band whose column c has relative position origin + 63 - c. Element (i, j) is in
// column c = j + 63 - i. Along a row c grows with j, and from one row to the next it shifts by one.
// Strides implement this shift. A row of scores reads the band's product at an unaligned address. A
// product over the band reads the score gradients with a stride larger by one, and zeros on both
// sides of each row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/attention/cpu/keys.h"

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
// The number of vectors of a band row that fit in registers.
template <typename T>
inline constexpr std::int64_t skew_vectors = std::min<std::int64_t>(
    skew_width<T> / lanes<T>, block_registers == 32 ? block_vectors + 1 : block_vectors);
template <typename T>
inline constexpr std::int64_t band_step = padded<T>(tile + skew_width<T>);

template <typename E>
struct Band {
  std::int64_t origin = 0;
  bool valid = false;
  E* read = nullptr;        // [band + 1, dim_padded], row c: relative position origin + 63 - c
  E* stacked = nullptr;     // the stacked form, if different
  E* columns = nullptr;     // [dim lanes, band_step] lanes, transposed
  const E* rows = nullptr;  // read or stacked
};

// Caches the most recent bands, because adjacent tiles need the same ones.
template <typename In>
class RelativeBands {
 public:
  using T = Accumulator<In>;
  using E = Element<In>;
  static constexpr std::int64_t slots = block_tiles;

  // Empty without a table.
  RelativeBands(const DistanceTable<const In>& table, ScratchArena& carver)
      : table_(table), width_padded_(padded<E>(table.width)) {
    if (!table) return;
    for (auto& slot : bands_) {
      slot.read = carver.take<E>((band + 1) * width_padded_);
      if (group < E >> 1) slot.stacked = carver.take<E>((band + 1) * width_padded_);
      slot.columns = carver.take<E>(width_padded_ * band_step<T>);
    }
  }

  // Invalidates the cached bands, which belong to one head.
  void forget() {
    for (auto& slot : bands_) slot.valid = false;
  }

  // The band of the tile whose first query minus first key is `distance`.
  const Band<E>& at(std::int64_t h, std::int64_t distance) {
    const std::int64_t origin = table_.origin(distance);
    auto& slot = bands_[modulo(floor_divide(origin, tile), slots)];
    if (!slot.valid || slot.origin != origin) pack(h, origin, slot);
    return slot;
  }

 private:
  void pack(std::int64_t h, std::int64_t origin, Band<E>& slot) {
    // Rows [begin, end) have a relative position that the table contains, in descending order.
    const std::int64_t farthest = origin + tile - 1;
    const std::int64_t begin = std::clamp(farthest - table_.high, std::int64_t{0}, band);
    const std::int64_t end = std::clamp(farthest - table_.low + 1, begin, band);
    read(h, table_.high, 0, begin, slot.read);
    if (begin < end)
      read_rows<In, E>({table_.row(h, farthest - begin), -table_.step},
                       end - begin,
                       table_.width,
                       nullptr,
                       slot.read + begin * width_padded_);
    read(h, table_.low, end, band, slot.read);
    std::fill_n(slot.read + band * width_padded_, width_padded_, E{});
    transpose(slot.read, band + 1, width_padded_, slot.columns, band_step<T>);
    for (std::int64_t k = 0; k < width_padded_ / group<E>; ++k)
      std::fill(slot.columns + (k * band_step<T> + band + 1) * group<E>,
                slot.columns + (k + 1) * band_step<T> * group<E>,
                E{});
    slot.rows = stack(slot.read, band + 1, width_padded_, width_padded_, 0, slot.stacked);
    slot.origin = origin;
    slot.valid = true;
  }

  // Reads rows of relative positions beyond an end: the row at that end, or zeros.
  void read(std::int64_t h, std::int64_t distance, std::int64_t begin, std::int64_t end, E* to) {
    if (table_.clipped)
      read_rows<In, E>({table_.row(h, distance), 0},
                       end - begin,
                       table_.width,
                       nullptr,
                       to + begin * width_padded_);
    else
      std::fill(to + begin * width_padded_, to + end * width_padded_, E{});
  }

  DistanceTable<const In> table_;
  std::int64_t width_padded_;
  Band<E> bands_[slots];
};

// scores[i, j] += left[i] . row(i, j) of the band. left: [rows, padded width] of `depth` lanes;
// scores: [rows, tile].
template <typename E>
void add_distance_products(const TileView& view,
                           const E* left,
                           std::int64_t depth,
                           std::int64_t width_padded,
                           const Band<E>& distances,
                           Accumulator<E>* scores) {
  using T = Accumulator<E>;
  alignas(64) T block[skew_rows * skew_width<T>];
  const Tag<T> tag;
  const std::int64_t rows = view.rows();
  for (std::int64_t i = 0; i < rows; i += skew_rows) {
    const std::int64_t count = std::min(skew_rows, rows - i);
    const Interval seen = view.visible_columns(i, i + count);
    if (seen.begin >= seen.end) continue;
    // Row i + r reads columns 63 - i - r + j: the block starts where its last row does.
    const std::int64_t first = tile - 1 - i - (count - 1);
    const Factors<E> factors{depth,
                             left + i * width_padded,
                             width_padded,
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

// to[i] += sum over j of factors[i, j] * row(i, j) of the band. factors: [rows, skew_step] with
// margins; to: [rows, width_padded].
template <typename E>
void add_distance_rows(const TileView& view,
                       const E* factors,
                       const Band<E>& distances,
                       std::int64_t width_padded,
                       Accumulator<E>* to) {
  for (std::int64_t i = 0; i < view.rows(); i += block_rows) {
    const std::int64_t count = std::min<std::int64_t>(block_rows, view.rows() - i);
    const Interval seen = view.visible_columns(i, i + count);
    if (seen.begin >= seen.end) continue;
    // Row i + r reads columns 63 - i - r + j: the block starts where its last row does, or one
    // earlier to match the stacked pairs of columns.
    std::int64_t first = tile - 1 - i - (count - 1);
    first -= first % group<E>;
    const std::int64_t shift = tile - 1 - i - first;
    add_product<false>(count,
                       width_padded,
                       Factors<E>{0,
                                  factors + i * skew_step + skew_margin - shift,
                                  skew_step + 1,
                                  distances.rows + first * width_padded,
                                  width_padded,
                                  to + i * width_padded,
                                  width_padded},
                       [&](std::int64_t, std::int64_t) {
                         return Interval{seen.begin + shift - (count - 1), seen.end + shift};
                       });
  }
}

// sums[c] = the sum of a tile's pairs in column c of the band; the last is 0. pairs: [rows,
// skew_step], starting after the margin.
template <typename T>
void sum_band_columns(std::int64_t rows, const T* pairs, T (&sums)[2 * tile]) {
  const Tag<T> tag;
  for (std::int64_t c = 0; c < 2 * tile; c += lanes<T>) {
    auto sum = hn::Zero(tag);
    const std::int64_t begin = std::max<std::int64_t>(0, tile - (c + lanes<T>));
    const std::int64_t end = std::min(rows, band - c);
    for (std::int64_t i = begin; i < end; ++i)
      sum = hn::Add(sum, hn::LoadU(tag, pairs + i * skew_step + c - (tile - 1) + i));
    hn::StoreU(sum, tag, sums + c);
  }
}

// Margin of the accumulators of a table's gradient, which are rows by relative position. Tiles
// exceed both ends of the table by less than the margin. The margin of an unclipped table
// accumulates zeros; the margin of a clipped table contributes to its ends.
inline constexpr std::int64_t distance_margin = 2 * tile;

// sums[d] += sum over the pairs (i, j) of the tile at relative position d of factors[i, j] *
// right[i]. Column c of the band accumulates the elements (i, c - 63 + i) of the tile, which move
// right by one in each row. factors: [rows, skew_step] with margins, `skewed` is workspace for
// them; right: stacked; sums: [count + 2 margins, width_padded].
template <typename In>
void add_distance_gradients(const TilePlan& plan,
                            const TileView& view,
                            const Element<In>* factors,
                            Element<In>* skewed,
                            const Element<In>* right,
                            const DistanceTable<const In>& table,
                            Accumulator<In>* sums) {
  using E = Element<In>;
  const std::int64_t width_padded = padded<E>(table.width);
  const E* turned =
      stack(factors, round_up(view.rows(), group<E>), skew_step, skew_step, 1, skewed);
  const std::int64_t farthest = table.origin(view.origin) + tile - 1;
  add_product<true>(band,
                    width_padded,
                    Factors<E>{0,
                               turned + (skew_margin - (tile - 1)) * group<E>,
                               skew_step + group<E>,
                               right,
                               width_padded,
                               sums + (farthest - table.low + distance_margin) * width_padded,
                               -width_padded},
                    [&](std::int64_t begin, std::int64_t end) {
                      const bool near = view.origin + tile - 1 - begin < plan.nearest();
                      const bool far = view.origin + tile - end > plan.max_distance();
                      return near || far ? Interval{0, 0}
                                         : Interval{std::max<std::int64_t>(0, tile - end),
                                                    std::min(view.rows(), band - begin)};
                    });
}

// Accumulators of the gradients of an attention call.

// Accumulators of one head's term gradients, before scaling.
template <typename T>
struct TermSums {
  T* key = nullptr;    // [distances + 2 margins, dim_padded]
  T* value = nullptr;  // [distances + 2 margins, value_padded]
  // [distances + 2 margins]: sums of score gradients by relative position
  T* score = nullptr;
  T* content_bias = nullptr;  // [dim_padded]
  T* bias = nullptr;          // [distances of the bias]: sums of score gradients, never scaled

  TermSums() = default;
  template <typename In>
  TermSums(const Problem<In>& p, ScratchArena& carver) {
    const auto rows = [](const auto& table) { return table.count() + 2 * distance_margin; };
    if (p.key_table) key = carver.take<T>(rows(p.key_table) * p.dim_padded);
    if (p.value_table) value = carver.take<T>(rows(p.value_table) * p.value_padded);
    if (p.call.distance_bias.defined()) bias = carver.take<T>(p.call.distance_bias.shape()[1]);
    if (!p.call.relative) return;
    score = carver.take<T>(rows(p.key_table));
    content_bias = carver.take<T>(p.dim_padded);
  }
};

// Accumulators of the tiles of one batch row and head.
template <typename T>
struct PairSums {
  T* dquery = nullptr;    // [time, dim_padded], before scaling
  T* dspan = nullptr;     // [time], with a soft span
  T* drow = nullptr;      // gradient of the rows of given scores, over all batch rows
  T* dfactors = nullptr;  // [time, a + c]: gradients of low and high
  TermSums<T> terms;
};

// Calls f with the elements of a gradient, in the input dtype or the accumulator dtype.
template <typename In, typename F>
void with_gradient(const Tensor& gradient, const F& f) {
  if (gradient.dtype() == DTypeOf<In>::value)
    f(gradient.data<In>());
  else
    f(gradient.data<Accumulator<In>>());
}

}  // namespace longspan::tile_attention

HWY_AFTER_NAMESPACE();
