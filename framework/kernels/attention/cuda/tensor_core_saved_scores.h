// Score gradients that the key blocks compute once and save for the query products: tiles [64 keys,
// 64 queries] of elements.
#pragma once

#include "framework/kernels/attention/cuda/matrix_calls.h"
#include "framework/kernels/attention/cuda/matrix_gradient.h"
#include "framework/kernels/attention/cuda/relative_band.h"

namespace longspan::tile_attention {

// Transposes the four words of four adjacent lanes: lane t receives word t of each.
__device__ __forceinline__ void exchange_words(std::uint32_t (&words)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 4;
  unrolled<2>([&](auto step) {
    constexpr int apart = 1 << step;
    const bool upper = (lane & apart) != 0;
    unrolled<2>([&](auto i) {
      constexpr int low = step == 0 ? 2 * i : i, high = low + apart;
      const std::uint32_t got = __shfl_xor_sync(all_lanes, upper ? words[low] : words[high], apart);
      words[low] = upper ? got : words[low];
      words[high] = upper ? words[high] : got;
    });
  });
}

// Writes the warp's rows of factors to those of a tile, whose columns start at `first`.
template <typename In, int columns>
__device__ __forceinline__ void save_factors(In* to, const Factors<columns>& factors, int first) {
  struct alignas(16) Piece {
    std::uint32_t words[4];
  };
  constexpr int together = 32;  // columns of four lanes' pieces
  unrolled<columns / together>([&](auto part) {
    unrolled<2>([&](auto r) {
      Piece piece;
      unrolled<4>([&](auto n) {
        constexpr std::integral_constant<int, 4 * part + n> of_part;
        piece.words[n] = factors.word(of_part, r);
      });
      exchange_words(piece.words);
      const int c = first + together * part + static_cast<int>(threadIdx.x) % 4 * 8;
      reinterpret_cast<Piece&>(to[WarpSums<tile>::row(2 * r) * tile + c]) = piece;
    });
  });
}

// The 16 columns of a tile from `first`, as a warp's rows of factors.
template <typename In>
__device__ __forceinline__ Factors<tile> columns_of(PaddedTile<In, tile> kept, int first) {
  const In* const of_lane = kept.at(0, first) + position_of_lane<tile>();
  Factors<tile> factors;
  unrolled<tile / 16>([&](auto k) {
    factors.of[k] = tensor_core::read_transposed(of_lane + 16 * k * matrix_step<tile>);
  });
  return factors;
}

// Shared memory of a block with one query tile, or two adjacent ones.
template <typename In, int dim, int count>
struct KeptQueriesMemory {
  using BandOf = Band<In, dim, count + 1>;
  unsigned char* at;
  BandOf band;

  static constexpr std::size_t row_bytes = count * matrix_bytes<tile> + matrix_bytes<dim>;
  static constexpr std::size_t bytes = row_bytes + BandOf::bytes;

  __device__ KeptQueriesMemory()
      : at(shared_memory<unsigned char>()), band(shared_memory<unsigned char>() + row_bytes) {}
  __device__ PaddedTile<In, tile> kept(int q) const {
    return nth_tile<PaddedTile<In, tile>>(at, q);
  }
  __device__ PaddedTile<In, dim> key() const {
    return nth_tile<PaddedTile<In, dim>>(at + count * matrix_bytes<tile>, 0);
  }
};

// Query gradient: products of the score gradients with keys and with the table. A warp's rows of
// two tiles are consecutive. Copies overlap products: a tile's part of the table is copied while
// its keys are multiplied. The next keys are copied while the table is multiplied.
template <typename In, int dim, int count>
__global__ void __launch_bounds__(tile_threads, dim > 64 ? 2 : 3)
    multiply_kept_by_keys(const __grid_constant__ GradientCall<In> g,
                          const __grid_constant__ Either<In> dquery) {
  using Part = PairPart<count == 2>;
  const AttentionCall<In>& call = g.call;
  const TileLists& lists = g.plan.by_query;
  const KeptQueriesMemory<In, dim, count> memory;
  const BlockPosition block(g, count == 1 ? lists.order : lists.pair_order);
  const std::int64_t b = block.b, h = block.h, first_tile = count * block.tile_index;
  TileCursors<count> cursors(call, lists, b, first_tile);
  const auto start_next = [&] {
    if (cursors.any()) {
      for (int q = 0; q < count; ++q)
        if (cursors.kind(q) != TileKind::none)
          start_copy_all_rows(
              memory.kept(q), g.saved_tile(b, h, cursors.number(lists, q)), std::int64_t{tile});
      start_copy_keys(memory.key(), call.key, call, b, h, cursors.tile_index() * tile);
    }
    tensor_core::end_copy_group();
  };
  start_next();
  std::int64_t there = no_half;  // first half present in the band
  WarpSums<dim> of_query[count];
  while (cursors.any()) {
    // The last of the block's query tiles, and which of its tiles visit the keys.
    const TilePosition last = {
        b, h, (first_tile + count - 1) * tile, cursors.tile_index() * tile, false};
    TileKind of_tiles[count];
    unrolled<count>([&](auto q) { of_tiles[q] = cursors.kind(q); });
    const bool sees = Part::of_tile(of_tiles, 0) != TileKind::none;
    cursors.next(lists);
    wait_for_rows<PaddedTile<In, dim>, 0>();
    __syncthreads();  // the keys have arrived; the previous part of the table may be overwritten
    memory.band.start_copy(call, call.key_table, nullptr, last, there);
    there = first_half_of(last);
    tensor_core::end_copy_group();
    Factors<tile> factors[count];
    if (sees) {
      unrolled<count>([&](auto q) {
        const int row = Part::begin(q) + WarpSums<tile>::first_row();
        factors[q] = columns_of(memory.kept(row / tile), row % tile);
      });
      if constexpr (count == 1)
        sum_rows(memory.key(), Product{of_query[0], factors[0]});
      else
        sum_rows(memory.key(), Product{of_query[0], factors[0]}, Product{of_query[1], factors[1]});
    }
    wait_for_rows<PaddedTile<In, dim>, 0>();
    __syncthreads();  // the table has arrived; the keys may be overwritten
    start_next();
    if (sees) memory.band.add_rows_of_parts(of_query, factors, last);
  }
  tensor_core::wait_for_copies<0>();
  unrolled<count>([&](auto q) {
    const std::int64_t query = first_tile * tile + Part::begin(q);
    write_query_gradient(g, dquery, b, h, query, RowUnits<In>(), of_query[q]);
  });
}

template <int dim, typename In>
void launch_kept_queries(Cuda cuda, const GradientCall<In>& g, const Either<In>& dquery) {
  const auto start = [&]<int count>(std::integral_constant<int, count>) {
    launch(cuda,
           {.blocks = (g.call.query_tiles() + count - 1) / count * g.pairs(),
            .threads = tile_threads,
            .shared_bytes = KeptQueriesMemory<In, dim, count>::bytes},
           multiply_kept_by_keys<In, dim, count>,
           g,
           dquery);
  };
  if (uses_two_tiles(cuda, g) && has_room_for_two(cuda, KeptQueriesMemory<In, dim, 2>::bytes))
    return start(std::integral_constant<int, 2>());
  start(std::integral_constant<int, 1>());
}

}  // namespace longspan::tile_attention
