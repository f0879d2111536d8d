// Which tiles are visited, and which elements of a partial tile count.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/attention.h"
#include "framework/kernels/cpu/attention_rows.h"

namespace longspan::tile_attention {

struct Interval {
  std::int64_t begin;
  std::int64_t end;
};

enum class TileKind { none, partial, full };

// The keys that a query sees are an interval whose two ends never move back from one query to the
// next, so the key tiles of a query tile are an interval too, and the query tiles of a key tile.
struct BandPlan {
  std::int64_t time;
  std::int64_t keys;
  std::int64_t offset;
  std::int64_t window;
  bool causal;

  explicit BandPlan(const Attention& a)
      : time(a.query.shape()[1]),
        keys(a.key.shape()[1]),
        offset(a.mask.offset),
        window(a.mask.window),
        causal(a.mask.causal) {}

  Interval keys_of(std::int64_t query) const {
    const std::int64_t end = causal ? std::clamp(query + offset + 1, std::int64_t{0}, keys) : keys;
    const std::int64_t begin =
        window > 0 ? std::clamp(query + offset - window + 1, std::int64_t{0}, keys) : 0;
    return {std::min(begin, end), end};
  }

  TileKind kind(Interval queries, Interval tile_keys) const {
    const Interval first = keys_of(queries.begin);
    const Interval last = keys_of(queries.end - 1);
    if (tile_keys.begin >= last.end || tile_keys.end <= first.begin) return TileKind::none;
    return last.begin <= tile_keys.begin && tile_keys.end <= first.end ? TileKind::full
                                                                       : TileKind::partial;
  }

  Interval query_tile(std::int64_t index) const {
    return {index * tile, std::min((index + 1) * tile, time)};
  }
  Interval key_tile(std::int64_t index) const {
    return {index * tile, std::min((index + 1) * tile, keys)};
  }
  std::int64_t query_tiles() const { return (time + tile - 1) / tile; }
  std::int64_t key_tiles() const { return (keys + tile - 1) / tile; }

  // Tile indices that hold every key seen by the queries, and every query that sees the keys.
  Interval key_tiles_of(Interval queries) const {
    const std::int64_t begin = keys_of(queries.begin).begin;
    const std::int64_t end = keys_of(queries.end - 1).end;
    return begin >= end ? Interval{0, 0} : Interval{begin / tile, (end + tile - 1) / tile};
  }
  Interval query_tiles_of(Interval seen) const {
    Interval result{0, query_tiles()};
    if (causal)
      result.begin = std::clamp((seen.begin - offset) / tile, std::int64_t{0}, result.end);
    if (window > 0)
      result.end =
          std::clamp((seen.end - 1 - offset + window - 1) / tile + 1, result.begin, result.end);
    return result;
  }
};

// Scores of keys that the rows of a partial tile do not see become -infinity. scores: [rows, tile].
template <typename T>
void mask_scores(const BandPlan& plan,
                 Interval queries,
                 Interval tile_keys,
                 const T* bias,
                 T* scores,
                 std::int64_t step) {
  const Tag<T> tag;
  for (std::int64_t i = queries.begin; i < queries.end; ++i) {
    const Interval seen = plan.keys_of(i);
    const auto begin =
        hn::Set(tag, static_cast<T>(std::max(seen.begin - tile_keys.begin, std::int64_t{0})));
    const auto end =
        hn::Set(tag, static_cast<T>(std::clamp(seen.end - tile_keys.begin, std::int64_t{0}, tile)));
    T* row = scores + (i - queries.begin) * step;
    for (std::int64_t j = 0; j < tile; j += lanes<T>) {
      const auto key = hn::Iota(tag, static_cast<T>(j));
      const auto inside = hn::And(hn::Ge(key, begin), hn::Lt(key, end));
      const auto score = hn::Add(hn::LoadU(tag, row + j), hn::LoadU(tag, bias + j));
      hn::StoreU(hn::IfThenElse(inside, score, hn::Set(tag, minus_infinity<T>)), tag, row + j);
    }
  }
}

}  // namespace longspan::tile_attention
