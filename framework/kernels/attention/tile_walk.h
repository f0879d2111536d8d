// Iteration over the key tiles that a tile of queries visits under a mask, shared by TilePlan and
// the pair counts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/attention/tile_plan.h"

namespace longspan {

// Hash key of caches by mask and shape.
std::uint64_t hash_of(const Mask& mask, const PlanShape& shape);

// Calls covered(begin, end) for tiles whose pairs are all allowed, and look_at(tile) for tiles that
// need bits. Ascending; tiles of `keys` are counted from its begin.
template <typename Covered, typename LookAt>
void for_each_key_tile(const Mask& mask,
                       KeyRange queries,
                       KeyRange keys,
                       const Covered& covered,
                       const LookAt& look_at) {
  constexpr std::int64_t tile = attention_tile;
  const KeyRanges some = keys_visible_to_any(mask, queries, keys);
  const KeyRanges all = keys_visible_to_all(mask, queries, keys);
  std::size_t at = 0;     // advances over `all`
  std::int64_t next = 0;  // the first key tile not visited yet
  for (const KeyRange& s : some) {
    const std::int64_t end = (s.end - keys.begin + tile - 1) / tile;
    for (std::int64_t t = std::max(next, (s.begin - keys.begin) / tile); t < end;) {
      const std::int64_t key = keys.begin + t * tile;
      while (at < all.size() && all[at].end <= key) ++at;
      const bool whole =
          at < all.size() && all[at].begin <= key && all[at].end >= std::min(key + tile, keys.end);
      if (!whole) {
        look_at(t);
        ++t;
        continue;
      }
      // All tiles that the range covers at once; the last one may be short.
      const std::int64_t until = all[at].end == keys.end ? (keys.end - keys.begin + tile - 1) / tile
                                                         : (all[at].end - keys.begin) / tile;
      covered(t, std::min(until, end));
      t = std::min(until, end);
    }
    next = std::max(next, end);
  }
}

}  // namespace longspan
