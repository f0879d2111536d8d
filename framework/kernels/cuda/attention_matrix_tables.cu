// Gradients of tables of distances on matrix units: a block walks down a diagonal, whose distances
// stay the same, and keeps the sums of its 127 rows in registers.
#include "framework/kernels/cuda/attention_matrix_calls.h"
#include "framework/kernels/cuda/attention_matrix_gradient.h"

namespace longspan::tile_attention {
namespace {

// to[i, e] = the factor of query i and the key whose distance row e has, zero where there is none.
template <typename In>
__device__ __forceinline__ void write_factors(std::uint32_t* to, const WarpSums<tile>& factors) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = tile - 16 - 16 * warp;  // row of those that the warp's queries have
  // Two lanes have a row's zeros, by 16 bytes.
  struct alignas(16) Piece {
    std::uint32_t of[4];
  };
  constexpr int piece = sizeof(Piece) / sizeof(In), pieces = (2 * tile - band_columns) / piece;
  unrolled<pieces / 2>([&](auto p) {
    const int i = 16 * warp + lane / 2, e = (lane % 2 * (pieces / 2) + p) * piece;
    reinterpret_cast<Piece*>(
        to)[(i * factor_step + (e < first ? e : e + band_columns)) / piece] = {};
  });
  const WarpSums<band_columns> shifted = unshifted(factors);
  unrolled<band_columns / 4>([&](auto x) {
    constexpr int n = x / 2, s = x % 2 * 2;
    const int i = WarpSums<tile>::row(s), e = first + WarpSums<tile>::column(n, 0);
    to[(i * factor_step + e) / 2] =
        tensor_core::pair_of<In>(shifted.of[n][s], shifted.of[n][s + 1]);
  });
}

// The sums of a warp's 32 rows of the band, and of their factors.
template <typename In, int dim>
struct BandSums {
  WarpSums<dim> of[2];
  float factors[2][4] = {};
  float to_units = smallest_units;

  __device__ static int row(int half, int s) {
    return WarpSums<dim>::row(s) + 16 * (static_cast<int>(threadIdx.x) / 32 + half);
  }
  // Gradients of scores come to be in units of the block, and what is summed remains so.
  __device__ __forceinline__ void apply_units(WarpSums<tile>& gradients, float* scratch) {
    float largest = 0;
    gradients.each(
        [&](int, int, float gradient, int) { largest = Greater()(std::abs(gradient), largest); });
    const float next = units_of(over_block(largest, scratch, Greater()), to_units);
    const float shrink = next / to_units;
    to_units = next;
    gradients.change([&](int, int, float gradient, int) { return gradient * to_units; });
    unrolled<2>([&](auto half) {
      of[half].change([&](int, int, float sum, int) { return sum * shrink; });
      unrolled<4>([&](auto s) { factors[half][s] *= shrink; });
    });
  }

  // Adds the products of a tile's factors with the rows of its queries.
  __device__ __forceinline__ void add(const std::uint32_t* tile_factors, const In* rows) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t ones = tensor_core::pair_of<In>(1, 1);
    const std::uint32_t* const own =
        tile_factors +
        ((lane / 16 * 8 + lane % 8) * factor_step + 32 * warp + lane / 8 % 2 * 8) / 2;
    const In* const from = rows + lane % 16 * matrix_step<dim> + lane / 16 * 8;
    unrolled<tile / 16>([&](auto k) {
      // Queries 16 k and on have no key in most rows of the band.
      const auto any = [&](int half) {
        const int place = 2 * warp + half + k;
        return place >= 3 && place <= 7;
      };
      Pairs left[2] = {};
      unrolled<2>([&](auto half) {
        if (any(half)) {
          left[half] = tensor_core::read_transposed(own + (k * 16 * factor_step + half * 16) / 2);
          tensor_core::multiply_add<In>(factors[half], left[half], ones, ones);
        }
      });
      if (!any(0) && !any(1)) return;
      unrolled<dim / 16>([&](auto n) {
        const Pairs right = tensor_core::read_transposed(from + k * 16 * matrix_step<dim> + n * 16);
        unrolled<2>([&](auto half) {
          if (any(half)) {
            auto& sums = of[half].of;
            tensor_core::multiply_add<In>(sums[2 * n], left[half], right.of[0], right.of[1]);
            tensor_core::multiply_add<In>(sums[2 * n + 1], left[half], right.of[2], right.of[3]);
          }
        });
      });
    });
  }
};

// bands: [heads of the group, diagonals, 128, dim]; biases: [heads of the group, diagonals, dim],
// the block's part of the gradient of the position bias.
template <typename In, int dim>
__global__ void __launch_bounds__(tile_threads, 2)
    sum_diagonals_with_matrices(const __grid_constant__ GradientCall<In> g,
                                const __grid_constant__ Diagonals diagonals,
                                bool of_values,
                                float* bands,
                                float* biases) {
  const AttentionCall<In>& call = g.call;
  using Tile = PaddedTile<In, dim>;
  const BackwardMemory<Tile> memory(g);
  static_assert(!Band<In, dim>::exchanges_in_band || factor_bytes <= matrix_bytes<dim>);
  auto* const factors = Band<In, dim>::exchanges_in_band
                            ? reinterpret_cast<std::uint32_t*>(memory.other(0, 1).rows)
                            : reinterpret_cast<std::uint32_t*>(memory.exchange(g, 0, {}));
  const std::int64_t of_group = blockIdx.x % g.heads, h = g.head_begin + of_group;
  const std::int64_t i = blockIdx.x / g.heads, diagonal = diagonals.first + i;
  const std::int64_t query_tiles = call.query_tiles(), key_tiles = call.key_tiles();
  const TilePlace any_place{0, h, diagonal * tile, 0, false};
  begin_copy_bands(call, memory, any_place, no_half);
  tensor_core::end_copy_group();  // there may be no tile below to end it
  BandSums<In, dim> sums;
  float no_span[2] = {0, 0};
  for (std::int64_t b = 0; b < call.batch; ++b)
    for (std::int64_t q = diagonal > 0 ? diagonal : 0; q < query_tiles && q - diagonal < key_tiles;
         ++q) {
      const TileKind kind = kind_of(g.plan.by_query, q, q - diagonal);
      if (kind == TileKind::none) continue;
      const TilePlace at{b, h, q * tile, (q - diagonal) * tile, kind == TileKind::full};
      begin_copy_query_pair(memory.own(0), memory.own(1), g, b, h, at.query);
      begin_copy_key_pair(
          memory.other(0, 0), memory.other(0, 1), memory.key_bias, call, b, h, at.key);
      tensor_core::end_copy_group();
      read_sums(g, b, h, at.query, memory.sums[0]);
      read_mask(call, g.plan.mask, at, *memory.keys);
      tensor_core::wait_for_copies<0>();
      __syncthreads();
      WarpSums<tile> weights, gradients;
      differentiate_tile<false>(g, memory, 0, at, memory.sums[0], 0, weights, gradients, no_span);
      __syncthreads();  // the values are not needed any more
      if (of_values) {
        write_factors<In>(factors, weights);
      } else {
        if constexpr (has_units<In>) sums.apply_units(gradients, memory.stage);
        write_factors<In>(factors, gradients);
      }
      __syncthreads();
      sums.add(factors, memory.own(of_values ? 1 : 0).rows);
      __syncthreads();  // the next tile comes here
    }
  tensor_core::wait_for_copies<0>();
  const std::int64_t item = of_group * diagonals.count + i;
  const float from_units = of_values       ? unlifted<In> * call.dropout.factor
                           : has_units<In> ? unlifted<In> / sums.to_units
                                           : unlifted<In>;
  unrolled<2>([&](auto half) {
    unrolled<2>([&](auto r) {
      if (threadIdx.x % 4 == 0)
        memory.stage[sums.row(half, 2 * r)] = sums.factors[half][2 * r] * from_units;
    });
    sums.of[half].each([&](int row, int c, float sum, int r) {
      const int e = row + 16 * (static_cast<int>(threadIdx.x) / 32 + half);
      if (biases != nullptr) sum += sums.factors[half][2 * r] * call.position_bias.at(h * dim + c);
      bands[(item * 2 * tile + e) * dim + c] = sum * from_units;
    });
  });
  if (biases == nullptr) return;
  __syncthreads();
  const auto c = static_cast<int>(threadIdx.x);
  if (c >= dim) return;
  float sum = 0;
  for (int e = 0; e < 2 * tile; ++e)
    sum += memory.stage[e] * wide(memory.key_band.row(any_place, e)[c]);
  biases[item * dim + c] = sum;
}

}  // namespace

template <typename In>
void sum_diagonals(Cuda cuda,
                   const GradientCall<In>& g,
                   const Diagonals& diagonals,
                   bool of_values,
                   float* bands,
                   float* biases) {
  with_matrix_width(g.call, [&]<int dim>(std::integral_constant<int, dim>) {
    launch(cuda,
           {.blocks = g.heads * diagonals.count,
            .threads = tile_threads,
            .shared_bytes = BackwardMemory<PaddedTile<In, dim>>::bytes(g)},
           sum_diagonals_with_matrices<In, dim>,
           g,
           diagonals,
           of_values,
           bands,
           biases);
  });
}

template void sum_diagonals(
    Cuda, const GradientCall<BFloat16>&, const Diagonals&, bool, float*, float*);
template void sum_diagonals(
    Cuda, const GradientCall<Float16>&, const Diagonals&, bool, float*, float*);

}  // namespace longspan::tile_attention
