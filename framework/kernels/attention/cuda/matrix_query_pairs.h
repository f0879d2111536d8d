// Query gradient on matrix units for two adjacent query tiles in each block: warps read keys and
// values once for the products of both. Copies overlap products: keys are copied while values are
// multiplied. The next values are copied during the last pass over the columns of the keys.
#pragma once

#include "framework/kernels/attention/cuda/matrix_calls.h"
#include "framework/kernels/attention/cuda/matrix_gradient.h"

namespace longspan::tile_attention {

template <typename Tile>
struct QueryPairMemory {
  TileKeys* keys;          // for each query tile
  float (*sums)[3][tile];  // for each query tile, as in BackwardMemory
  unsigned char* rows;

  static constexpr std::size_t number_bytes =
      aligned_bytes<Tile>(2 * (sizeof(TileKeys) + 3 * tile * sizeof(float)));
  static constexpr std::size_t bytes = number_bytes + 6 * Tile::bytes;
  static_assert(2 * (bytes + 1024) <= 228 * 1024, "compute capability 9.0 has room for two blocks");

  __device__ QueryPairMemory() {
    auto* at = shared_memory<unsigned char>();
    keys = reinterpret_cast<TileKeys*>(at);
    sums = reinterpret_cast<float(*)[3][tile]>(at + 2 * sizeof(TileKeys));
    rows = at + number_bytes;
  }
  __device__ Tile query(int q) const { return nth_tile<Tile>(rows, q); }
  __device__ Tile dout(int q) const { return nth_tile<Tile>(rows, 2 + q); }
  __device__ Tile key() const { return nth_tile<Tile>(rows, 4); }
  __device__ Tile value() const { return nth_tile<Tile>(rows, 5); }
};

// For calls without terms.
template <typename Tile>
__global__ void __launch_bounds__(tile_threads, blocks_of_two_tiles)
    differentiate_query_pairs(const __grid_constant__ GradientCall<typename Tile::In> given,
                              const __grid_constant__ Either<typename Tile::In> dquery) {
  using In = typename Tile::In;
  constexpr int dim = Tile::dim;
  constexpr int columns = dim > 64 ? tile / 2 : tile;  // limited by registers
  const GradientCall<In>& g = known<Terms::none>(given);
  const AttentionCall<In>& call = g.call;
  const TileLists& lists = g.plan.by_query;
  const QueryPairMemory<Tile> memory;
  const BlockPosition block(g, lists.pair_order);
  const std::int64_t b = block.b, h = block.h, first_tile = 2 * block.tile_index;
  TileCursors<2> cursors(call, lists, b, first_tile);
  const auto start_next = [&](Tile to, const In* from) {
    if (cursors.any()) start_copy_keys(to, from, call, b, h, cursors.tile_index() * tile);
    tensor_core::end_copy_group();
  };
  unrolled<2>([&](auto q) {
    const std::int64_t query = (first_tile + q) * tile;
    start_copy_query_pair(memory.query(q), memory.dout(q), g, b, h, query);
    read_sums(g, b, h, query, memory.sums[q]);
  });
  start_next(memory.value(), call.value);
  start_next(memory.key(), call.key);
  WarpSums<dim> of_query[2];
  RowUnits<In> units[2];
  float unused[2] = {0, 0};
  float* const no_stage = nullptr;  // no term needs a stage
  while (cursors.any()) {
    const std::int64_t key_tile = cursors.tile_index();
    TileKind kinds[2];
    unrolled<2>([&](auto q) {
      kinds[q] = within_reach(call, b, (first_tile + q) * tile, key_tile * tile, cursors.kind(q));
    });
    const auto at = [&](auto q) {
      const bool full = kinds[q] == TileKind::full;
      return TilePosition{b, h, (first_tile + q) * tile, key_tile * tile, full};
    };
    cursors.next(lists);
    const bool any = is_looked_at(call, kinds[0]) || is_looked_at(call, kinds[1]);
    read_masks(call, g.plan.mask, any, kinds, at, memory.keys);
    wait_for_rows<Tile, 1>();
    __syncthreads();  // the values have arrived
#pragma unroll 1
    for (int first = 0; first < tile; first += columns) {
      WarpSums<columns> scores[2], gradients[2];
      with_visitors<false>(
          kinds, [&](auto... q) __attribute__((always_inline)) {
            Tile::begin(gradients[q]...);
            multiply_rows(memory.value().from(first), Product{gradients[q], memory.dout(q)}...);
            Tile::finish(gradients[q]...);
          });
      if (first == 0) wait_for_rows<Tile, 0>();
      // the keys have arrived; the values may be overwritten (in a single pass, both)
      __syncthreads();
      if (first + columns == tile) start_next(memory.value(), call.value);
      with_visitors<false>(
          kinds, [&](auto... q) __attribute__((always_inline)) {
            Tile::begin(scores[q]...);
            multiply_rows(memory.key().from(first), Product{scores[q], memory.query(q)}...);
            Tile::finish(scores[q]...);
            const auto finish = [&](auto i) __attribute__((always_inline)) {
              differentiate<false>(g,
                                   at(i),
                                   memory.keys[i],
                                   memory.sums[i],
                                   first,
                                   no_stage,
                                   scores[i],
                                   gradients[i],
                                   unused);
              units[i].apply(gradients[i], of_query[i], unused);
            };
            (finish(q), ...);
            Tile::begin(of_query[q]...);
            sum_rows(memory.key().from(first), Product{of_query[q], gradients[q]}...);
            Tile::finish(of_query[q]...);
          });
    }
    __syncthreads();  // the keys may be overwritten
    start_next(memory.key(), call.key);
  }
  tensor_core::wait_for_copies<0>();
  unrolled<2>([&](auto q) {
    write_query_gradient(g, dquery, b, h, (first_tile + q) * tile, units[q], of_query[q]);
  });
}

}  // namespace longspan::tile_attention
