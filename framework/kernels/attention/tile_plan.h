// The tiles of a score matrix that an attention call visits. For each tile of 64 queries it lists,
// as runs, exactly the tiles of 64 keys with an allowed pair. The backward pass uses the same lists
// by key tile. Built from integers, once for each mask and shape.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "framework/core/device.h"
#include "framework/kernels/attention/mask_tiles.h"

namespace longspan {

// Queries and keys in a tile.
inline constexpr std::int64_t attention_tile = 64;

// Queries query_begin .. query_begin + time - 1 and keys key_begin .. key_begin + keys - 1, as
// global positions: both may be chunks of a sequence.
struct PlanShape {
  std::int64_t query_begin = 0;
  std::int64_t time = 0;
  std::int64_t key_begin = 0;
  std::int64_t keys = 0;
  friend bool operator==(const PlanShape&, const PlanShape&) = default;
};

// Tiles [begin, end), all full or all partial. In a full tile all 64 x 64 pairs exist and are
// allowed.
struct TileRun {
  std::int32_t begin;
  std::int32_t end : 31;
  std::uint32_t full : 1;
  friend bool operator==(const TileRun&, const TileRun&) = default;
};

// Memory limit of the lists of one plan, including their transposition.
inline constexpr std::int64_t max_plan_bytes = std::int64_t{1} << 30;

class TilePlan {
 public:
  // Takes time proportional to the partial tiles and the runs, not to all tiles. Throws
  // ConfigurationError if its lists would exceed `max_bytes`. Also throws it for 2^30 or more
  // tiles of queries or keys, which exceed the index range of a run.
  TilePlan(const Mask& mask, const PlanShape& shape, std::int64_t max_bytes = max_plan_bytes);

  const Mask& mask() const { return mask_; }
  const PlanShape& shape() const { return shape_; }
  std::int64_t query_tiles() const { return (shape_.time + attention_tile - 1) / attention_tile; }
  std::int64_t key_tiles() const { return (shape_.keys + attention_tile - 1) / attention_tile; }

  // Ascending; adjacent runs differ in full or partial.
  std::span<const TileRun> key_runs(std::int64_t query_tile) const {
    return by_query_.of(query_tile);
  }
  // The transposed lists, built on first use.
  std::span<const TileRun> query_runs(std::int64_t key_tile) const;

  // Counts of visited tiles (full and partial) and of allowed pairs.
  std::int64_t full_tiles() const { return full_tiles_; }
  std::int64_t partial_tiles() const { return partial_tiles_; }
  std::int64_t pairs() const { return pairs_; }
  std::int64_t runs() const { return static_cast<std::int64_t>(by_query_.runs.size()); }
  // Memory of the plan, assuming that the lists by key tile are as long as those by query tile.
  std::int64_t bytes() const;
  // The smallest and largest p - k of an allowed pair; 0 and -1 if there is none.
  std::int64_t nearest() const { return nearest_; }
  std::int64_t max_distance() const { return farthest_; }

  // bits[r] bit j: query `first_query + r` may see key `first_key + j`, both global, for up to 64
  // rows and 64 keys. Computed on demand for partial tiles; bits are not stored.
  void tile_bits(std::int64_t first_query,
                 std::int64_t rows,
                 std::int64_t first_key,
                 std::int64_t keys,
                 std::uint64_t* bits) const;

 private:
  struct Lists {
    std::vector<std::int64_t> begin;  // [tiles + 1]
    std::vector<TileRun> runs;
    std::span<const TileRun> of(std::int64_t tile) const {
      const auto i = static_cast<std::size_t>(tile);
      return {runs.data() + begin[i], static_cast<std::size_t>(begin[i + 1] - begin[i])};
    }
  };

  void add_query_tile(std::int64_t query_tile);
  void add_covered(KeyRange queries, std::int64_t begin, std::int64_t end);
  void add_looked_at(KeyRange queries, std::int64_t key_tile);
  void add_distances(std::int64_t nearest, std::int64_t farthest);
  void add_run(std::int64_t begin, std::int64_t end, bool full);
  void transpose() const;

  Mask mask_;
  PlanShape shape_;
  std::int64_t max_bytes_;
  Lists by_query_;
  mutable Lists by_key_;
  mutable std::once_flag transposed_;
  std::int64_t full_tiles_ = 0;
  std::int64_t partial_tiles_ = 0;
  std::int64_t pairs_ = 0;
  std::int64_t nearest_ = 0;
  std::int64_t farthest_ = -1;
};

// Returns the plan of a mask and shape, cached in the device state and built on first use. Evicts
// the least recently used plans if all exceed 2^30 bytes.
std::shared_ptr<const TilePlan> tile_plan(DeviceState& device,
                                          const Mask& mask,
                                          const PlanShape& shape);

}  // namespace longspan
