// Launch arguments of attention kernels, and the work item of each block.
#pragma once

#include "framework/kernels/attention/cuda/kernel_arguments.h"
#include "framework/kernels/attention/cuda/tile_plan.h"

namespace longspan::tile_attention {

// Number of slices of 64 features.
inline LONGSPAN_HOST_DEVICE int slices_of(int width) { return (width + tile - 1) / tile; }

// Arguments of a launch: a call, the heads that share one plan, and the batch rows.
template <typename In>
struct GroupCall {
  AttentionCall<In> call;
  PlanView plan;
  std::int64_t head_begin;
  std::int64_t heads;
  std::int64_t row_begin = 0;  // first batch row
  std::int64_t rows = call.batch;

  LONGSPAN_HOST_DEVICE std::int64_t pairs() const { return rows * heads; }
  // Number of (batch row, head) pairs whose tiles are processed in an interleaved order, the
  // largest tiles first. The rows that are streamed for a pair should stay in the L2 cache between
  // its tiles.
  LONGSPAN_HOST_DEVICE std::int64_t pairs_together() const {
    constexpr std::int64_t cache = std::int64_t{32} << 20;  // bytes; L2 caches have at least 40 MB
    const std::int64_t longest = call.time > call.keys ? call.time : call.keys;
    const std::int64_t bytes =
        longest * (call.dim + call.value_dim) * static_cast<std::int64_t>(sizeof(In));
    const std::int64_t fitting = cache / (bytes > 0 ? bytes : 1);
    return fitting < 1 ? 1 : fitting < pairs() ? fitting : pairs();
  }
};

// Returns a group's call, or its container, specialized at compile time for `terms`.
template <Terms terms, typename Group>
__device__ __forceinline__ decltype(auto) known(const Group& group) {
  if constexpr (terms == Terms::any) {
    return (group);
  } else {
    Group copy = group;
    copy.call = known<terms>(group.call);
    return copy;
  }
}

// Work item of a block: one tile, or pair of tiles, of one batch row and head, in the sequence of
// `order`. first: the first feature, if the features are split among blocks.
struct BlockPosition {
  std::int64_t b, h, tile_index;
  int first;

  template <typename In>
  __device__ BlockPosition(const GroupCall<In>& group, const std::int64_t* order, int slices = 1) {
    std::int64_t item = blockIdx.x;
    first = static_cast<int>(item % slices) * tile;
    item /= slices;
    const std::int64_t tiles = gridDim.x / slices / group.pairs();
    const std::int64_t together = group.pairs_together();
    const std::int64_t pair_begin = item / (together * tiles) * together;
    item -= pair_begin * tiles;
    const std::int64_t left = group.pairs() - pair_begin;
    const std::int64_t here = left < together ? left : together;
    const std::int64_t pair = pair_begin + item % here;
    h = group.head_begin + pair % group.heads;
    b = group.row_begin + pair / group.heads;
    tile_index = order[item / here];
  }
};

}  // namespace longspan::tile_attention
