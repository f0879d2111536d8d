// A tile's rows, columns and, for partial tiles, allowed pairs.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "framework/kernels/attention/cpu/tile_rows.h"
#include "framework/kernels/attention/tile_plan.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

enum class TileKind { none, partial, full };

// Products skip keys and queries that are masked for an entire part of the tile.
struct TileView {
  Interval queries;
  Interval keys;
  std::int64_t origin = 0;  // relative position of the first key and the first query
  TileKind kind = TileKind::none;
  const std::uint64_t* bits = nullptr;  // [rows], of a partial tile: bit j of row r

  std::int64_t rows() const { return queries.end - queries.begin; }
  std::uint64_t row(std::int64_t r) const { return kind == TileKind::full ? all_bits : bits[r]; }

  Interval visible_columns(std::int64_t begin, std::int64_t end) const {
    if (kind == TileKind::full) return {0, tile};
    std::uint64_t seen = 0;
    for (std::int64_t r = begin; r < end; ++r) seen |= bits[r];
    if (seen == 0) return {0, 0};
    return {std::countr_zero(seen), 64 - std::countl_zero(seen)};
  }
  Interval rows_seeing(std::int64_t begin, std::int64_t end) const {
    Interval result{0, rows()};
    if (kind == TileKind::full) return result;
    const std::uint64_t columns =
        begin >= 64 ? 0 : (all_bits << begin) & (end >= 64 ? all_bits : ~(all_bits << end));
    while (result.begin < result.end && (bits[result.begin] & columns) == 0) ++result.begin;
    while (result.begin < result.end && (bits[result.end - 1] & columns) == 0) --result.end;
    return result;
  }
};

// Sets the scores of masked pairs of a partial tile to -infinity. scores: [rows, tile].
template <typename T>
void mask_scores(const TileView& view, T* scores) {
  const Tag<T> tag;
  const auto hidden = hn::Set(tag, minus_infinity<T>);
  for (std::int64_t r = 0; r < view.rows(); ++r) {
    if (view.bits[r] == all_bits) continue;
    T* row = scores + r * tile;
    for (std::int64_t j = 0; j < tile; j += lanes<T>) {
      const std::uint64_t word = view.bits[r] >> j;
      const auto seen = hn::LoadMaskBits(tag, reinterpret_cast<const std::uint8_t*>(&word));
      hn::StoreU(hn::IfThenElse(seen, hn::LoadU(tag, row + j), hidden), tag, row + j);
    }
  }
}

// Iterates over the union of several lists of runs, in ascending order.
class TileWalk {
 public:
  static constexpr std::size_t most = 4;

  // Restricted to the tiles from `begin` to `end`.
  explicit TileWalk(std::int64_t begin = 0, std::int64_t end = last)
      : end_(end), tile_(begin - 1) {}

  void add(std::span<const TileRun> runs) {
    lists_[count_++] = {runs.data(), runs.data() + runs.size()};
  }

  // Returns false when no tile is left.
  bool next() {
    ++tile_;
    std::int64_t nearest = last;
    for (std::size_t i = 0; i < count_; ++i) {
      List& list = lists_[i];
      while (list.at != list.end && list.at->end <= tile_) ++list.at;
      if (list.at != list.end) nearest = std::min<std::int64_t>(nearest, list.at->begin);
    }
    tile_ = std::max(tile_, nearest);
    return tile_ < end_;
  }
  std::int64_t tile() const { return tile_; }
  // Kind of the current tile in list `i`.
  TileKind kind(std::int64_t i) const {
    const List& list = lists_[static_cast<std::size_t>(i)];
    if (list.at == list.end || list.at->begin > tile_) return TileKind::none;
    return list.at->full != 0 ? TileKind::full : TileKind::partial;
  }

 private:
  static constexpr std::int64_t last = std::int64_t{1} << 40;
  struct List {
    const TileRun* at;
    const TileRun* end;
  };
  std::array<List, most> lists_{};
  std::size_t count_ = 0;
  std::int64_t end_;
  std::int64_t tile_;  // before the first step, one less than the first tile
};

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
