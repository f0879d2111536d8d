// Gradients of relative-position tables on matrix units. The tiles of a diagonal have the same
// relative positions: a block iterates over one diagonal and accumulates its 127 rows in registers.
#include "framework/kernels/attention/cuda/matrix_calls.h"
#include "framework/kernels/attention/cuda/matrix_gradient.h"
#include "framework/kernels/attention/cuda/pair_ranges.h"
#include "framework/kernels/attention/cuda/tensor_core_saved_scores.h"

namespace longspan::tile_attention {
namespace {

// Factors in shared memory: [i, e] has the pair of query i and the key whose relative position is
// row e. Entries without a pair are zero and remain so from tile to tile.
template <typename In>
__device__ __forceinline__ void clear_factors(std::uint32_t* to) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = tile - 16 - 16 * warp;  // first of the warp's rows of the band
  // Two lanes write a row's zeros, 16 bytes at a time.
  struct alignas(16) Piece {
    std::uint32_t of[4];
  };
  constexpr int piece = sizeof(Piece) / sizeof(In), pieces = (2 * tile - band_columns) / piece;
  unrolled<pieces / 2>([&](auto p) {
    const int i = 16 * warp + lane / 2, e = (lane % 2 * (pieces / 2) + p) * piece;
    reinterpret_cast<Piece*>(
        to)[(i * factor_step + (e < first ? e : e + band_columns)) / piece] = {};
  });
}
__device__ __forceinline__ void write_factors(std::uint32_t* to, const Factors<tile>& factors) {
  const Factors<band_columns> shifted = unshifted(factors);
  const int first = tile - 16 - WarpSums<tile>::first_row();
  unrolled<band_columns / 4>([&](auto x) {
    constexpr std::integral_constant<int, x / 2> n;
    constexpr std::integral_constant<int, x % 2> r;
    const int i = WarpSums<tile>::row(2 * r), e = first + WarpSums<tile>::column(n, 0);
    to[(i * factor_step + e) / 2] = shifted.word(n, r);
  });
}

// Iterates over the visited tiles of a diagonal.
template <typename In>
class DiagonalCursor {
 public:
  __device__ DiagonalCursor(const GradientCall<In>& g, std::int64_t h, std::int64_t diagonal)
      : g_(g),
        h_(h),
        diagonal_(diagonal),
        begin_(diagonal > 0 ? diagonal : 0),
        end_(g.call.key_tiles() + diagonal < g.call.query_tiles() ? g.call.key_tiles() + diagonal
                                                                  : g.call.query_tiles()),
        b_(g.row_begin),
        query_tile_(begin_ - 1) {
    next();
  }
  __device__ bool any() const { return b_ < g_.row_begin + g_.rows; }
  __device__ TilePosition place() const {
    const std::int64_t key_tile = query_tile_ - diagonal_;
    return {b_, h_, query_tile_ * tile, key_tile * tile, visit_.kind == TileKind::full};
  }
  __device__ const In* kept() const { return g_.saved_tile(b_, h_, visit_.number); }
  __device__ void next() {
    do {
      if (++query_tile_ == end_) {
        query_tile_ = begin_;
        ++b_;
      }
      if (any()) visit_ = find_visit(g_, b_, query_tile_, query_tile_ - diagonal_);
    } while (any() && visit_.kind == TileKind::none);
  }

 private:
  const GradientCall<In>& g_;
  std::int64_t h_;
  std::int64_t diagonal_;
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t b_;
  std::int64_t query_tile_;
  Visit visit_ = {TileKind::none, 0};
};

// Outputs of the diagonal blocks: bands [heads of the group, diagonals, 128, dim]. biases: [heads
// of the group, diagonals, dim], their contributions to the position bias gradient, or null.
struct BandSumsTo {
  float* bands;
  float* biases;
};

// Work item of a block: a diagonal of a head.
struct DiagonalPosition {
  std::int64_t h;
  std::int64_t diagonal;
  std::int64_t item;  // index of the output

  template <typename In>
  __device__ DiagonalPosition(const GradientCall<In>& g, const Diagonals& diagonals)
      : h(g.head_begin + blockIdx.x % g.heads),
        diagonal(diagonals.first + blockIdx.x / g.heads),
        item(blockIdx.x % g.heads * diagonals.count + blockIdx.x / g.heads) {}
  // Any tile of the diagonal, sufficient to determine the table rows.
  __device__ TilePosition any_tile() const { return {0, h, diagonal * tile, 0, false}; }
};

// Sums of a warp's 32 rows of the band, half of them in each of its halves, and of their factors.
template <typename In, int dim>
struct BandSums {
  WarpSums<dim> of[2];
  float factors[2][4] = {};
  float to_units = max_to_units;

  __device__ static int row(int half, int s) { return half * tile + WarpSums<dim>::row(s); }
  // Converts score gradients to units of the block; sums keep these units.
  __device__ __forceinline__ void apply_units(WarpSums<tile>& gradients, float* scratch) {
    float largest = 0;
    gradients.each(
        [&](int, int, float gradient, int) { largest = Max()(std::abs(gradient), largest); });
    const float next = units_of(block_reduce(largest, scratch, Max()), to_units);
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
        ((lane / 16 * 8 + lane % 8) * factor_step + 16 * warp + lane / 8 % 2 * 8) / 2;
    const In* const from = rows + lane % 16 * matrix_step<dim> + lane / 16 * 8;
    unrolled<tile / 16>([&](auto k) {
      // Queries from 16 k on have no key in most rows of the band, so warps skip these.
      const auto any = [&](int half) {
        const int place = warp + tile / 16 * half + k;
        return place >= 3 && place <= 7;
      };
      Pairs left[2] = {};
      unrolled<2>([&](auto half) {
        if (any(half)) {
          left[half] = tensor_core::read_transposed(own + (k * 16 * factor_step + half * tile) / 2);
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

  // Writes the sums, converted from units. The band has the table's rows, and `scratch` has space
  // for 128 numbers.
  __device__ __forceinline__ void write(const AttentionCall<In>& call,
                                        const DiagonalPosition& at,
                                        const Band<In, dim>& band,
                                        float from_units,
                                        float* scratch,
                                        const BandSumsTo& to) const {
    unrolled<2>([&](auto half) {
      unrolled<2>([&](auto r) {
        if (threadIdx.x % 4 == 0) scratch[row(half, 2 * r)] = factors[half][2 * r] * from_units;
      });
      of[half].each([&](int, int c, float sum, int r) {
        if (to.biases != nullptr)
          sum += factors[half][2 * r] * call.position_bias.at(at.h * dim + c);
        to.bands[(at.item * 2 * tile + row(half, 2 * r)) * dim + c] = sum * from_units;
      });
    });
    if (to.biases == nullptr) return;
    __syncthreads();
    const auto c = static_cast<int>(threadIdx.x);
    if (c >= dim) return;
    float sum = 0;
    for (int e = 0; e < 2 * tile; ++e) sum += scratch[e] * wide(band.row(at.any_tile(), e)[c]);
    to.biases[at.item * dim + c] = sum;
  }
};

template <typename In, int dim>
__global__ void __launch_bounds__(tile_threads, 2)
    sum_diagonals_with_matrices(const __grid_constant__ GradientCall<In> g,
                                const __grid_constant__ Diagonals diagonals,
                                bool of_values,
                                BandSumsTo to) {
  const AttentionCall<In>& call = g.call;
  using Tile = PaddedTile<In, dim>;
  const BackwardMemory<Tile> memory(g);
  static_assert(!Band<In, dim>::exchanges_in_band || factor_bytes <= matrix_bytes<dim>);
  auto* const factors = Band<In, dim>::exchanges_in_band
                            ? reinterpret_cast<std::uint32_t*>(memory.other(0, 1).rows)
                            : reinterpret_cast<std::uint32_t*>(memory.exchange(g, 0, {}));
  const DiagonalPosition block(g, diagonals);
  start_copy_bands(call, memory, block.any_tile(), no_half);
  tensor_core::end_copy_group();  // there may be no tile below to commit it
  BandSums<In, dim> sums;
  float no_span[2] = {0, 0};
  for (DiagonalCursor<In> cursor(g, block.h, block.diagonal); cursor.any(); cursor.next()) {
    const TilePosition at = cursor.place();
    start_copy_query_pair(memory.local_tile(0), memory.local_tile(1), g, at.b, at.h, at.query);
    start_copy_key_pair(
        memory.other(0, 0), memory.other(0, 1), memory.key_bias, call, at.b, at.h, at.key);
    tensor_core::end_copy_group();
    read_sums(g, at.b, at.h, at.query, memory.sums[0]);
    read_mask(call, g.plan.mask, at, *memory.keys);
    tensor_core::wait_for_copies<0>();
    __syncthreads();
    WarpSums<tile> weights, gradients;
    differentiate_tile<false>(g, memory, 0, at, memory.sums[0], 0, weights, gradients, no_span);
    __syncthreads();  // the values may be overwritten
    clear_factors<In>(factors);
    if constexpr (has_units<In>)
      if (!of_values) sums.apply_units(gradients, memory.stage);
    write_factors(factors, of_values ? rounded<In>(weights) : rounded<In>(gradients));
    __syncthreads();
    sums.add(factors, memory.local_tile(of_values ? 1 : 0).rows);
    __syncthreads();  // the next tile is copied here
  }
  tensor_core::wait_for_copies<0>();
  const float from_units = of_values       ? unlifted<In> * call.dropout.factor
                           : has_units<In> ? unlifted<In> / sums.to_units
                                           : unlifted<In>;
  sums.write(call, block, memory.key_band, from_units, memory.stage, to);
}

// Shared memory of a block that reads saved score gradients: two query tiles, one being copied
// while the other is multiplied. Reused for the table's rows at the end.
template <typename In, int dim>
struct KeptDiagonalMemory {
  unsigned char* at = shared_memory<unsigned char>();

  static constexpr std::size_t bytes = matrix_bytes<tile> + Band<In, dim>::bytes + factor_bytes;

  __device__ PaddedTile<In, tile> kept() const { return nth_tile<PaddedTile<In, tile>>(at, 0); }
  __device__ PaddedTile<In, dim> query(int stage) const {
    return nth_tile<PaddedTile<In, dim>>(at + matrix_bytes<tile>, stage);
  }
  __device__ Band<In, dim> band() const { return Band<In, dim>(at + matrix_bytes<tile>); }
  __device__ std::uint32_t* factors() const {
    return reinterpret_cast<std::uint32_t*>(at + matrix_bytes<tile> + Band<In, dim>::bytes);
  }
};

template <typename In, int dim>
__global__ void __launch_bounds__(tile_threads, dim > 64 ? 2 : 3)
    sum_kept_diagonals(const __grid_constant__ GradientCall<In> g,
                       const __grid_constant__ Diagonals diagonals,
                       BandSumsTo to) {
  const AttentionCall<In>& call = g.call;
  const KeptDiagonalMemory<In, dim> memory;
  const DiagonalPosition block(g, diagonals);
  DiagonalCursor<In> cursor(g, block.h, block.diagonal);
  const auto start_next = [&](int stage) {
    if (cursor.any()) {
      const TilePosition at = cursor.place();
      start_copy_all_rows(memory.kept(), cursor.kept(), std::int64_t{tile});
      start_copy_queries(memory.query(stage), call.query, call, at.b, at.h, at.query);
      cursor.next();
    }
    tensor_core::end_copy_group();
  };
  clear_factors<In>(memory.factors());
  BandSums<In, dim> sums;
  bool any = cursor.any();
  start_next(0);
  for (int stage = 0; any; stage = 1 - stage) {
    tensor_core::wait_for_copies<0>();
    __syncthreads();  // the rows have arrived; the previous factors may be overwritten
    write_factors(memory.factors(), columns_of(memory.kept(), WarpSums<tile>::first_row()));
    __syncthreads();
    any = cursor.any();
    start_next(1 - stage);
    sums.add(memory.factors(), memory.query(stage).rows);
  }
  __syncthreads();
  const Band<In, dim> band = memory.band();
  if (to.biases != nullptr)
    band.start_copy(call, call.key_table, nullptr, block.any_tile(), no_half);
  tensor_core::end_copy_group();
  tensor_core::wait_for_copies<0>();
  sums.write(call, block, band, unlifted<In>, reinterpret_cast<float*>(memory.kept().rows), to);
}

}  // namespace

template <typename In>
void sum_diagonals(Cuda cuda,
                   const GradientCall<In>& g,
                   const Diagonals& diagonals,
                   bool of_values,
                   float* bands,
                   float* biases) {
  const BandSumsTo to = {bands, biases};
  with_matrix_width(g.call, [&]<int dim>(std::integral_constant<int, dim>) {
    if constexpr (may_retain_gradients<In>)
      if (g.kept != nullptr && !of_values)
        return launch(cuda,
                      {.blocks = g.heads * diagonals.count,
                       .threads = tile_threads,
                       .shared_bytes = KeptDiagonalMemory<In, dim>::bytes},
                      sum_kept_diagonals<In, dim>,
                      g,
                      diagonals,
                      to);
    launch(cuda,
           {.blocks = g.heads * diagonals.count,
            .threads = tile_threads,
            .shared_bytes = BackwardMemory<PaddedTile<In, dim>>::bytes(g)},
           sum_diagonals_with_matrices<In, dim>,
           g,
           diagonals,
           of_values,
           to);
  });
}

template void sum_diagonals(
    Cuda, const GradientCall<BFloat16>&, const Diagonals&, bool, float*, float*);
template void sum_diagonals(
    Cuda, const GradientCall<Float16>&, const Diagonals&, bool, float*, float*);

}  // namespace longspan::tile_attention
