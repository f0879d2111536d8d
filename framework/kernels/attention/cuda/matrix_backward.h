// Backward pass on matrix units. As in the generic kernels, a block for each query tile, or two
// adjacent ones, writes the query gradient. A block for each key tile writes the key and value
// gradients. It computes the score tile transposed, so that the result of one product feeds the
// next in registers. With a relative-position table, it also saves the score gradients for the
// other blocks.
#pragma once

#include "framework/kernels/attention/cuda/matrix_calls.h"
#include "framework/kernels/attention/cuda/matrix_gradient.h"
#include "framework/kernels/attention/cuda/matrix_query_pairs.h"
#include "framework/kernels/attention/cuda/pair_ranges.h"
#include "framework/kernels/attention/cuda/tensor_core_saved_scores.h"

namespace longspan::tile_attention {

// Sums over the threads of a row, for each of a thread's two rows.
__device__ inline void add_up_rows(float (&sums)[2]) {
  for (float& sum : sums)
    for (int lanes = 1; lanes <= 2; lanes *= 2) sum += __shfl_xor_sync(all_lanes, sum, lanes);
}

template <typename Tile, Terms terms>
__global__ void __launch_bounds__(tile_threads, 2)
    differentiate_queries(const __grid_constant__ GradientCall<typename Tile::In> given,
                          const __grid_constant__ Either<typename Tile::In> dquery,
                          float* spans) {
  using In = typename Tile::In;
  constexpr int dim = Tile::dim;
  const GradientCall<In>& g = known<terms>(given);
  const AttentionCall<In>& call = g.call;
  const BackwardMemory<Tile> memory(g);
  const BlockPosition block(g, g.plan.by_query.order);
  const std::int64_t b = block.b, h = block.h, query = block.tile_index * tile;
  WarpSums<dim> of_query;
  RowUnits<In> units;
  float dspan[2] = {0, 0}, unused[2] = {0, 0};
  for_tiles_of_block<false, terms>(
      g,
      memory,
      block,
      dspan,
      [&](const TilePosition& at, int, const auto& keys, const auto&, auto& gradients) {
        units.apply(gradients, of_query, unused);
        Tile::begin(of_query);
        sum_rows(keys(0), Product{of_query, gradients});
        Tile::finish(of_query);
        if (call.key_table)
          add_rows<In>(memory.key_band.rows(at),
                       Product{of_query, unshifted(rounded<In>(gradients))});
      });
  write_query_gradient(g, dquery, b, h, query, units, of_query);
  if (spans == nullptr) return;
  add_up_rows(dspan);
  for (int r = 0; r < 2; ++r) {
    const std::int64_t i = query + WarpSums<dim>::row(2 * r);
    if (threadIdx.x % 4 == 0 && i < call.time)
      spans[(b * call.heads + h) * call.time + i] = dspan[r] * call.span.soft.step * unlifted<In>;
  }
}

// `biases` [batch, heads, key tiles, dim] receives the block's part of the content bias gradient.
template <typename Tile, Terms terms>
__global__ void __launch_bounds__(tile_threads, 2)
    differentiate_keys(const __grid_constant__ GradientCall<typename Tile::In> given,
                       const __grid_constant__ Either<typename Tile::In> dkey,
                       const __grid_constant__ Either<typename Tile::In> dvalue,
                       float* biases) {
  using In = typename Tile::In;
  constexpr int dim = Tile::dim;
  const GradientCall<In>& g = known<terms>(given);
  const AttentionCall<In>& call = g.call;
  const BackwardMemory<Tile> memory(g);
  const BlockPosition block(g, g.plan.by_key.order);
  const std::int64_t b = block.b, h = block.h, key = block.tile_index * tile;
  WarpSums<dim> of_key, of_value;
  RowUnits<In> units;
  float of_bias[2] = {0, 0}, no_span[2] = {0, 0};
  for_tiles_of_block<true, terms>(
      g,
      memory,
      block,
      no_span,
      [&](const TilePosition& at,
          int first,
          const auto& queries,
          const auto& weights,
          auto& gradients) {
        units.apply(gradients, of_key, of_bias);
        if constexpr (may_have_tables<terms> && may_retain_gradients<In>)
          if (g.kept != nullptr) {
            const Visit visit = find_visit(g, b, at.query / tile, block.tile_index);
            save_factors(g.saved_tile(b, h, visit.number), rounded<In>(gradients), first);
          }
        Tile::begin(of_value, of_key);
        sum_rows(queries(1), Product{of_value, weights});
        sum_rows(queries(0), Product{of_key, gradients});
        Tile::finish(of_value, of_key);
        if (biases != nullptr)
          gradients.each([&](int, int, float gradient, int r) { of_bias[r] += gradient; });
      });
  const float from_units[2] = {units.from_units(0), units.from_units(1)};
  if (biases != nullptr) {
    add_up_rows(of_bias);
    of_key.change([&](int, int c, float sum, int r) {
      return sum + of_bias[r] * call.content_bias.at(h * dim + c);
    });
    for (int r = 0; r < 2; ++r)
      if (threadIdx.x % 4 == 0)
        memory.stage[WarpSums<dim>::row(2 * r)] = of_bias[r] * from_units[r];
    __syncthreads();
    const auto c = static_cast<int>(threadIdx.x);
    float sum = 0;
    for (int j = 0; c < dim && j < tile; ++j)
      sum += memory.stage[j] * wide(*memory.local_tile(0).at(j, c));
    if (c < dim)
      biases[((b * call.heads + h) * call.key_tiles() + block.tile_index) * dim + c] = sum;
  }
  const float of_scores[2] = {call.scale * from_units[0], call.scale * from_units[1]};
  write_rows(dkey, call, b, h, call.keys, key, of_key, of_scores, g.adds_to_keys());
  const float of_weights = call.dropout.factor * unlifted<In>;
  write_rows(
      dvalue, call, b, h, call.keys, key, of_value, {of_weights, of_weights}, g.adds_to_keys());
}

// Whether rows are copied ahead: only if no relative-position table needs the memory.
template <typename Tile, typename In>
bool copies_ahead(Cuda cuda, GradientCall<In> g) {
  g.ahead = true;
  return !BackwardMemory<Tile>::has_table(g.call) &&
         has_room_for_two(cuda, BackwardMemory<Tile>::bytes(g));
}

template <typename Tile, Terms terms, typename In>
void launch_queries(Cuda cuda, const GradientCall<In>& g, const Gradients<In>& to) {
  const std::int64_t tiles = g.call.query_tiles();
  if constexpr (may_have_tables<terms> && may_retain_gradients<In>)
    if (g.kept != nullptr) return launch_kept_queries<Tile::dim>(cuda, g, to.dquery);
  // Warp-group products read their factors for each product anyway.
  if constexpr (terms == Terms::none && !Tile::accumulates_products) {
    constexpr std::size_t bytes = QueryPairMemory<Tile>::bytes;
    if (uses_two_tiles(cuda, g) && has_room_for_two(cuda, bytes))
      return launch(
          cuda,
          {.blocks = (tiles + 1) / 2 * g.pairs(), .threads = tile_threads, .shared_bytes = bytes},
          differentiate_query_pairs<Tile>,
          g,
          to.dquery);
  }
  launch(cuda,
         {.blocks = tiles * g.pairs(),
          .threads = tile_threads,
          .shared_bytes = BackwardMemory<Tile>::bytes(g)},
         differentiate_queries<Tile, terms>,
         g,
         to.dquery,
         to.parts.span);
}

// For calls with at most those terms.
template <typename Tile, Terms most, typename In>
void launch_backward(Cuda cuda, GradientCall<In> g, const Gradients<In>& to) {
  g.ahead = copies_ahead<Tile>(cuda, g);
  with_terms<Tile, most>(g.call, [&]<Terms terms>() {
    launch(cuda,
           {.blocks = g.call.key_tiles() * g.pairs(),
            .threads = tile_threads,
            .shared_bytes = BackwardMemory<Tile>::bytes(g)},
           differentiate_keys<Tile, terms>,
           g,
           to.dkey,
           to.dvalue,
           to.parts.content_bias);
    launch_queries<Tile, terms>(cuda, g, to);
  });
}

}  // namespace longspan::tile_attention
