// The tiles that a block on matrix units visits, and their masks.
#pragma once

#include <limits>

#include "framework/kernels/attention/cuda/tensor_core.h"

namespace longspan::tile_attention {

// Tiles from `begin` to `end` of a list.
struct TileRange {
  std::int32_t begin = 0;
  std::int32_t end = std::numeric_limits<std::int32_t>::max();
};
// The key tiles that a query tile of a batch row sees, and the query tiles that see a key tile.
template <typename In>
__device__ TileRange key_tiles_of(const AttentionCall<In>& call,
                                  std::int64_t b,
                                  std::int64_t query_tile) {
  return {.begin = static_cast<std::int32_t>(call.first_key_tile(b, query_tile))};
}
template <typename In>
__device__ TileRange query_tiles_of(const AttentionCall<In>& call,
                                    std::int64_t b,
                                    std::int64_t key_tile) {
  return {.end = static_cast<std::int32_t>(call.end_query_tile(b, key_tile))};
}

// Iterates over the tiles of a list of runs within a range.
class TileCursor {
 public:
  static constexpr std::int32_t no_tile = std::numeric_limits<std::int32_t>::max();

  // Empty if there is no list of that number.
  __device__ TileCursor(const TileLists& lists,
                        std::int64_t of,
                        const TileRange& range,
                        bool there = true)
      : next_run_(there ? static_cast<std::int32_t>(lists.begin[of]) : 0),
        end_(there ? static_cast<std::int32_t>(lists.begin[of + 1]) : 0),
        end_tile_(range.end) {
    do {
      start_run(lists);
    } while (any() && run_.end <= range.begin);
    if (any() && tile_ < range.begin) tile_ = range.begin;
    stop_at_end();
  }
  __device__ bool any() const { return tile_ != no_tile; }
  __device__ std::int64_t tile_index() const { return tile_; }
  __device__ bool full() const { return run_.full != 0; }
  // Visit number over all lists.
  __device__ std::int64_t number(const TileLists& lists) const {
    return lists.before[next_run_ - 1] + tile_ - run_.begin;
  }
  __device__ void next(const TileLists& lists) {
    if (++tile_ == run_.end) start_run(lists);
    stop_at_end();
  }

 private:
  __device__ void stop_at_end() {
    if (tile_ >= end_tile_) tile_ = no_tile;
  }
  __device__ void start_run(const TileLists& lists) {
    tile_ = no_tile;
    if (next_run_ == end_) return;
    run_ = lists.runs[next_run_++];
    tile_ = run_.begin;
  }

  std::int32_t next_run_;
  std::int32_t end_;
  std::int32_t end_tile_;
  TileRun run_ = {};  // the current run
  std::int32_t tile_;
};

// Iterates over the union of the tiles of `count` adjacent lists.
template <int count>
class TileCursors {
 public:
  // Lists of a batch row's query tiles, from `first` on, as far as they exist.
  template <typename In>
  __device__ TileCursors(const AttentionCall<In>& call,
                         const TileLists& lists,
                         std::int64_t b,
                         std::int64_t first)
      : first_(lists, first, key_tiles_of(call, b, first)),
        last_(lists,
              first + count - 1,
              key_tiles_of(call, b, first + count - 1),
              first + count - 1 < call.query_tiles()) {}
  __device__ bool any() const { return tile_index() != TileCursor::no_tile; }
  __device__ std::int64_t tile_index() const {
    if (count == 1 || first_.tile_index() < last_.tile_index()) return first_.tile_index();
    return last_.tile_index();
  }
  // Kind of the tile in list i.
  __device__ TileKind kind(int i) const {
    const TileCursor& cursor = i == 0 ? first_ : last_;
    if (cursor.tile_index() != tile_index()) return TileKind::none;
    return cursor.full() ? TileKind::full : TileKind::partial;
  }
  __device__ std::int64_t number(const TileLists& lists, int i) const {
    return (i == 0 ? first_ : last_).number(lists);
  }
  __device__ void next(const TileLists& lists) {
    const std::int64_t present = tile_index();
    if (first_.tile_index() == present) first_.next(lists);
    if (count == 2 && last_.tile_index() == present) last_.next(lists);
  }

 private:
  static_assert(count == 1 || count == 2);
  TileCursor first_;
  TileCursor last_;  // the last list; equals first_ if there is only one
};

// Kind of a listed key tile after the lookback of 64 queries is applied.
template <typename In>
__device__ TileKind within_reach(const AttentionCall<In>& call,
                                 std::int64_t b,
                                 std::int64_t query,
                                 std::int64_t key,
                                 TileKind kind) {
  return kind == TileKind::full && !call.reaches(b, query, key) ? TileKind::partial : kind;
}

// Whether no pair of a tile needs an individual check.
template <typename In>
__device__ bool is_plain(const AttentionCall<In>& call, bool full) {
  return full && !call.has_pair_terms();
}

// The rows of part q of a block's two query tiles. Warp w has rows 16 w .. 16 w + 15 of tile q.
// With `follow`, the rows of a warp are consecutive: part q has 32 w + 16 q and the following rows.
template <bool follow>
struct PairPart {
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  template <typename T, int count>
  __device__ static T of_tile(const T (&of_tiles)[count], int q) {
    if constexpr (follow) return warp() / 2 == 0 ? of_tiles[0] : of_tiles[1];
    return of_tiles[q];
  }
  // Row offset of a part from the start of the first tile, for a warp whose own offset is 16
  // `warp`.
  __device__ static int begin(int q) { return follow ? 16 * (warp() + q) : q * tile; }
};

// Calls f(constants) with the parts of the block's queries that visit a key tile.
template <bool follow, int count, typename F>
__device__ __forceinline__ void with_visitors(const TileKind (&kinds)[count], F f) {
  constexpr std::integral_constant<int, 0> first;
  constexpr std::integral_constant<int, 1> second;
  if constexpr (count == 1) {
    f(first);
  } else if constexpr (follow) {  // all of one tile
    if (kinds[0] != TileKind::none) f(first, second);
  } else {
    if (kinds[1] == TileKind::none)
      f(first);
    else if (kinds[0] == TileKind::none)
      f(second);
    else
      f(first, second);
  }
}

template <typename In>
__device__ bool is_looked_at(const AttentionCall<In>& call, TileKind kind) {
  return kind != TileKind::none && !is_plain(call, kind == TileKind::full);
}

// Validity of a key tile for each part of a block's queries, at(constant). Pair bits are filled for
// parts that need individual checks, if `any`, and dropout bits with dropout. Results may be read
// after the threads synchronize.
template <typename In, int count, typename At>
__device__ __forceinline__ void read_masks(const AttentionCall<In>& call,
                                           const MaskView& mask,
                                           bool any,
                                           const TileKind (&kinds)[count],
                                           At at,
                                           TileKeys* keys) {
  unrolled<count>([&](auto q) { read_cached(call, at(q), keys[q]); });
  if (!any) return;
  unrolled<count>([&](auto q) { read_keys(call, at(q), keys[q]); });
  __syncthreads();
  unrolled<count>([&](auto q) {
    if (is_looked_at(call, kinds[q])) read_pairs(call, mask, at(q), keys[q]);
  });
}

template <typename In>
__device__ __forceinline__ void read_mask(const AttentionCall<In>& call,
                                          const MaskView& mask,
                                          const TilePosition& at,
                                          TileKeys& keys) {
  const TileKind kinds[] = {at.full ? TileKind::full : TileKind::partial};
  read_masks(
      call, mask, is_looked_at(call, kinds[0]), kinds, [&](auto) { return at; }, &keys);
}

}  // namespace longspan::tile_attention
