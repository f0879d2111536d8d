// Which tiles are visited, and which elements of a partial tile count.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/attention.h"
#include "framework/kernels/cpu/attention_rows.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

enum class TileKind { none, partial, full };

// The keys that a query sees are an interval whose two ends never move back from one query to the
// next, so the key tiles of a query tile are an interval too, and the query tiles of a key tile.
struct BandPlan {
  std::int64_t time;
  std::int64_t keys;
  std::int64_t offset;
  std::int64_t window = 0;
  bool causal = false;

  explicit BandPlan(const Attention& a)
      : time(a.query.shape()[1]),
        keys(a.key.shape()[1]),
        offset(a.mask.query_begin - a.mask.key_begin) {
    const auto& alternatives = a.mask.rules.of(a.mask.head_begin).alternatives();
    require(alternatives.size() == 1 && a.mask.rules.one_for_all(),
            "attention: unions of rules and tables of masks cannot be computed yet");
    for (const MaskRule& rule : alternatives.front()) {
      const bool band = rule.kind == RuleKind::window && rule.numbers[0] >= 0 &&
                        (rule.numbers[1] == 0 || rule.numbers[1] == masks::unlimited);
      require(band || rule.kind == RuleKind::causal,
              "attention: this rule of a mask cannot be computed yet");
      causal |= rule.kind == RuleKind::causal || rule.numbers[1] == 0;
      if (band) window = rule.numbers[0] + 1;
    }
  }

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
    const bool whole = tile_keys.end - tile_keys.begin == tile;
    const bool all = last.begin <= tile_keys.begin && tile_keys.end <= first.end;
    return whole && all ? TileKind::full : TileKind::partial;
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

// One tile of a plan: which of its columns a run of its rows sees, and which of its rows see a run
// of its columns. Products skip the rest.
struct TileView {
  const BandPlan& plan;
  Interval queries;
  Interval keys;
  TileKind kind;

  TileView(const BandPlan& of, Interval tile_queries, Interval tile_keys)
      : plan(of), queries(tile_queries), keys(tile_keys), kind(of.kind(queries, keys)) {}

  std::int64_t rows() const { return queries.end - queries.begin; }
  // Distance of the first key from the first query.
  std::int64_t origin() const { return queries.begin + plan.offset - keys.begin; }

  Interval columns_seen(std::int64_t begin, std::int64_t end) const {
    if (kind == TileKind::full) return {0, tile};
    return {
        std::clamp(plan.keys_of(queries.begin + begin).begin - keys.begin, std::int64_t{0}, tile),
        std::clamp(plan.keys_of(queries.begin + end - 1).end - keys.begin, std::int64_t{0}, tile)};
  }
  Interval rows_seeing(std::int64_t begin, std::int64_t end) const {
    Interval result{0, rows()};
    if (kind == TileKind::full) return result;
    if (plan.causal) result.begin = std::max(begin - origin(), std::int64_t{0});
    if (plan.window > 0) result.end = std::min(end - 1 - origin() + plan.window, rows());
    return result;
  }
};

// Scores of keys that the rows of a partial tile do not see become -infinity. scores: [rows, tile].
template <typename T>
void mask_scores(const TileView& view, const T* bias, T* scores) {
  const Tag<T> tag;
  for (std::int64_t r = 0; r < view.rows(); ++r) {
    const Interval seen = view.columns_seen(r, r + 1);
    const auto begin = hn::Set(tag, static_cast<T>(seen.begin));
    const auto end = hn::Set(tag, static_cast<T>(seen.end));
    T* row = scores + r * tile;
    for (std::int64_t j = 0; j < tile; j += lanes<T>) {
      const auto key = hn::Iota(tag, static_cast<T>(j));
      const auto inside = hn::And(hn::Ge(key, begin), hn::Lt(key, end));
      const auto score = hn::Add(hn::LoadU(tag, row + j), hn::LoadU(tag, bias + j));
      hn::StoreU(hn::IfThenElse(inside, score, hn::Set(tag, minus_infinity<T>)), tag, row + j);
    }
  }
}

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
