// Plans where kernels read them.
#pragma once

#include <memory>

#include "framework/kernels/attention/shared/mask_rules.h"
#include "framework/kernels/attention/tile_plan.h"

namespace longspan {

// The runs of each tile: those of tile t are runs[begin[t]] .. runs[begin[t + 1] - 1]. Before run r
// there are before[r] tiles in the runs of all, of which there are `visits`. `order` has the tiles
// that visit most others first: blocks begin in this order, so that none that takes long begins
// last. `pair_order` has the pairs of neighbours so, of which pair p is tiles 2 p and 2 p
// + 1.
struct TileLists {
  const std::int64_t* begin;
  const TileRun* runs;
  const std::int64_t* before;
  const std::int64_t* order;
  const std::int64_t* pair_order;
  std::int64_t visits;
  bool pairs_share;  // of what the tiles of pairs visit, at least a quarter is what both do
};

struct PlanView {
  TileLists by_query;  // runs of key tiles
  TileLists by_key;    // runs of query tiles
  MaskView mask;       // for partial tiles, whose bits are not kept
};

// Copied on first use and kept with the device as long as the plan lives; `by_key` is undefined
// where it has not been asked for.
PlanView plan_view(Cuda cuda, const std::shared_ptr<const TilePlan>& plan, bool by_key);

}  // namespace longspan
