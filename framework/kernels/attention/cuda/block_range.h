// What a kernel of attention is started for, and which part of it a block has.
#pragma once

#include "framework/kernels/attention/cuda/kernel_arguments.h"
#include "framework/kernels/attention/cuda/tile_plan.h"

namespace longspan::tile_attention {

// Blocks of 64 features.
inline LONGSPAN_HOST_DEVICE int slices_of(int width) { return (width + tile - 1) / tile; }

// A call for heads that have one plan, and for rows of the batch: what a kernel is started for.
template <typename In>
struct GroupCall {
  AttentionCall<In> call;
  PlanView plan;
  std::int64_t head_begin;
  std::int64_t heads;
  std::int64_t row_begin = 0;  // of the batch
  std::int64_t rows = call.batch;

  LONGSPAN_HOST_DEVICE std::int64_t pairs() const { return rows * heads; }
  // Pairs of a batch row and a head whose tiles are taken one after another, the largest first:
  // what streams past all tiles of a pair is to stay in the cache from one to the next.
  LONGSPAN_HOST_DEVICE std::int64_t pairs_together() const {
    constexpr std::int64_t cache = std::int64_t{32} << 20;  // bytes, of 40 MB and more
    const std::int64_t longest = call.time > call.keys ? call.time : call.keys;
    const std::int64_t bytes =
        longest * (call.dim + call.value_dim) * static_cast<std::int64_t>(sizeof(In));
    const std::int64_t fitting = cache / (bytes > 0 ? bytes : 1);
    return fitting < 1 ? 1 : fitting < pairs() ? fitting : pairs();
  }
};

// A group's call, or what has one, as the compiler is to know it.
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

// What makes a block of a number: one tile, or pair of tiles, of one batch row and head as `order`
// has them, and the first of the features where others have the rest.
struct BlockPlace {
  std::int64_t b, h, tile_index;
  int first;

  template <typename In>
  __device__ BlockPlace(const GroupCall<In>& group, const std::int64_t* order, int slices = 1) {
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
