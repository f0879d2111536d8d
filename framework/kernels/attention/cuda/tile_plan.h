// Tile plans in device memory.
#pragma once

#include <memory>

#include "framework/kernels/attention/shared/mask_rules.h"
#include "framework/kernels/attention/tile_plan.h"

namespace longspan {

// The runs of each tile: tile t has runs[begin[t]] .. runs[begin[t + 1] - 1]. before[r] counts the
// tiles in the runs before run r, over all lists; `visits` is the total. `order` lists the tiles by
// descending number of visits. Blocks start in this order, so that no long block starts last.
// `pair_order` lists pairs of adjacent tiles in the same way; pair p is tiles 2 p and 2 p + 1.
struct TileLists {
  const std::int64_t* begin;
  const TileRun* runs;
  const std::int64_t* before;
  const std::int64_t* order;
  const std::int64_t* pair_order;
  std::int64_t visits;
  bool pairs_share;  // both tiles of pairs visit at least a quarter of their tiles
};

struct PlanView {
  TileLists by_query;  // runs of key tiles
  TileLists by_key;    // runs of query tiles
  MaskView mask;       // for partial tiles, whose bits are not stored
};

// Returns the device copy of a plan, created on first use and cached as long as the plan lives.
// `by_key` is undefined until it is requested.
PlanView plan_view(Cuda cuda, const std::shared_ptr<const TilePlan>& plan, bool by_key);

}  // namespace longspan
