// Tile attention on matrix units: bf16 and f16 with sums in f32. A block of four warps has a tile
// of 64 rows, 16 a warp, and streams tiles of 64 others past them: queries past which keys stream,
// or keys past which queries do.
#pragma once

#include <type_traits>
#include <utility>

#include "framework/kernels/cuda/attention_gradient.h"
#include "framework/kernels/cuda/tensor_core.h"

namespace longspan::tile_attention {

using tensor_core::Pairs;

// Elements from a row in shared memory to the next: so that 8 rows lie in different banks.
template <int dim>
inline constexpr int matrix_step = dim + 8;

template <int dim>
inline constexpr std::size_t matrix_bytes = tile* matrix_step<dim> * 2;

// f(0), f(1), ... with constants, so that what they index stays in registers.
template <int count, typename F>
__device__ void unrolled(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>()), ...); }
  (std::make_integer_sequence<int, count>());
}

// A warp's part of a product: 16 rows of `columns`.
template <int columns>
struct WarpSums {
  float of[columns / 8][4] = {};

  __device__ static int row(int s) {
    return static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4 +
           s / 2 * 8;
  }
  __device__ static int column(int n, int s) {
    return 8 * n + static_cast<int>(threadIdx.x) % 4 * 2 + s % 2;
  }
  // f(row, column, element, 0 in the first of the thread's two rows and 1 in the other).
  template <typename F>
  __device__ void each(F f) const {
    unrolled<columns / 2>([&](auto e) {
      constexpr int n = e / 4, s = e % 4;
      f(row(s), column(n, s), of[n][s], s / 2);
    });
  }
  // Elements become what f returns.
  template <typename F>
  __device__ void change(F f) {
    unrolled<columns / 2>([&](auto e) {
      constexpr int n = e / 4, s = e % 4;
      of[n][s] = f(row(s), column(n, s), of[n][s], s / 2);
    });
  }
};

// Elements that a block stages at once, and from a row of them to the next.
inline constexpr int stage_columns = 16;
inline constexpr int stage_step = stage_columns + 2;
inline constexpr std::size_t stage_bytes = tile * stage_step * sizeof(float);

// to[i, c] = f(i, column + c, from[i, c]) for the warp's 16 rows: a loop for what is too long to be
// there for each of a thread's elements. Two neighbouring threads have one row.
template <typename F>
__device__ void change_stage(float* stage, int column, F f) {
  const int row = static_cast<int>(threadIdx.x) / 2;
  float* const of_row = stage + row * stage_step;
  __syncwarp();
  for (int c = static_cast<int>(threadIdx.x) % 2; c < stage_columns; c += 2)
    of_row[c] = f(row, column + c, of_row[c]);
  __syncwarp();
}

// Elements become what f(row, column, element) makes of them by stage, and join of both.
template <typename F, typename Join>
__device__ void join_by_stage(WarpSums<tile>& sums, float* stage, F f, Join join) {
  unrolled<tile / stage_columns>([&](auto part) {
    constexpr int column = part * stage_columns;
    const auto place = [&](auto e) -> float& {
      return stage[WarpSums<tile>::row(e % 4) * stage_step + WarpSums<tile>::column(e / 4, e % 4)];
    };
    unrolled<stage_columns / 2>([&](auto e) { place(e) = sums.of[column / 8 + e / 4][e % 4]; });
    change_stage(stage, column, f);
    unrolled<stage_columns / 2>([&](auto e) {
      join(std::integral_constant<int, column / 8 + e / 4>(),
           std::integral_constant<int, e % 4>(),
           place(e));
    });
    __syncwarp();
  });
}

// Elements become what f(row, column, element) returns.
template <typename F>
__device__ void change_by_stage(WarpSums<tile>& sums, float* stage, F f) {
  join_by_stage(sums, stage, f, [&](auto n, auto s, float changed) { sums.of[n][s] = changed; });
}

// The factor of dropout of a pair.
template <typename In>
__device__ float keep_of(
    const AttentionCall<In>& call, const TilePlace& at, Draws<float>& draws, int i, int j) {
  return draws.factor(call.dropout, call.dropout.index.of(at.b, at.h, at.query + i, at.key + j));
}

// Begins to copy the rows of a tile, `step` elements apart; zeros where not real(row).
template <int dim, typename In, typename Real>
__device__ void begin_copy_rows(In* to, const In* from, std::int64_t step, Real real) {
  constexpr int pieces = dim / 8;
  for (int e = static_cast<int>(threadIdx.x); e < tile * pieces; e += tile_threads) {
    const int row = e / pieces, c = e % pieces * 8;
    const bool is_real = real(row);
    tensor_core::begin_copy(
        to + row * matrix_step<dim> + c, is_real ? from + row * step + c : from, is_real);
  }
}

// Features 16 k .. 16 k + 15 of the warp's rows of a tile.
template <int dim, typename In>
__device__ Pairs own_rows_of(const In* rows, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane % 16;
  return tensor_core::read_matrices(rows + row * matrix_step<dim> + k * 16 + lane / 16 * 8);
}

// sums[i, j] += own row i . row j of the other tile; own(k) gives features of the warp's rows.
template <int dim, typename In, typename Own>
__device__ void add_row_products(WarpSums<tile>& sums, Own own, const In* other) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const In* const from = other + (lane / 16 * 8 + lane % 8) * matrix_step<dim> + lane / 8 % 2 * 8;
  unrolled<dim / 16>([&](auto k) {
    const Pairs left = own(k);
    unrolled<tile / 16>([&](auto n) {
      const Pairs right = tensor_core::read_matrices(from + n * 16 * matrix_step<dim> + k * 16);
      tensor_core::multiply_add<In>(sums.of[2 * n], left, right.of[0], right.of[1]);
      tensor_core::multiply_add<In>(sums.of[2 * n + 1], left, right.of[2], right.of[3]);
    });
  });
}

// sums[i, c] += the sum over the other tile's rows j of factors[i, j] and their feature c.
template <int dim, typename In>
__device__ void add_rows(WarpSums<dim>& sums, const WarpSums<tile>& factors, const In* other) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const In* const from = other + lane % 16 * matrix_step<dim> + lane / 16 * 8;
  unrolled<tile / 16>([&](auto k) {
    const auto& first = factors.of[2 * k];
    const auto& second = factors.of[2 * k + 1];
    const Pairs left = {{tensor_core::pair_of<In>(first[0], first[1]),
                         tensor_core::pair_of<In>(first[2], first[3]),
                         tensor_core::pair_of<In>(second[0], second[1]),
                         tensor_core::pair_of<In>(second[2], second[3])}};
    unrolled<dim / 16>([&](auto n) {
      const Pairs right = tensor_core::read_transposed(from + k * 16 * matrix_step<dim> + n * 16);
      tensor_core::multiply_add<In>(sums.of[2 * n], left, right.of[0], right.of[1]);
      tensor_core::multiply_add<In>(sums.of[2 * n + 1], left, right.of[2], right.of[3]);
    });
  });
}

// The tiles of a list of runs, one after the other.
class TileCursor {
 public:
  __device__ TileCursor(const TileLists& lists, std::int64_t of)
      : run_(lists.runs + lists.begin[of]), end_(lists.runs + lists.begin[of + 1]) {
    if (any()) tile_ = run_->begin;
  }
  __device__ bool any() const { return run_ != end_; }
  __device__ std::int64_t tile_index() const { return tile_; }
  __device__ bool full() const { return run_->full != 0; }
  __device__ void next() {
    if (++tile_ < run_->end) return;
    ++run_;
    if (any()) tile_ = run_->begin;
  }

 private:
  const TileRun* run_;
  const TileRun* end_;
  std::int64_t tile_ = 0;
};

// Whether the scores of a tile are nothing but its products.
template <typename In>
__device__ bool is_plain(const AttentionCall<In>& call, bool full) {
  return full && !call.looks_at_pairs() && !call.has_terms();
}

// What makes a block of a number: one tile of one batch row and head.
struct BlockPlace {
  std::int64_t b, h, tile_index;

  template <typename In>
  __device__ BlockPlace(const AttentionCall<In>& call,
                        std::int64_t head_begin,
                        std::int64_t heads,
                        const std::int64_t* order) {
    std::int64_t item = blockIdx.x;
    h = head_begin + item % heads;
    item /= heads;
    b = item % call.batch;
    tile_index = order[item / call.batch];
  }
};

inline constexpr float log2_of_e = 1.44269504088896340736f;

// Both return false where a call is not for matrix units: f64 and f32, head widths other than 32,
// 64, 96 and 128, tables of distances and soft spans.
template <typename In>
bool attend_with_matrices(Cuda cuda,
                          const AttentionCall<In>& call,
                          const PlanView& plan,
                          std::int64_t head_begin,
                          std::int64_t heads);
template <typename In>
bool differentiate_with_matrices(Cuda cuda,
                                 const GradientCall<In>& g,
                                 const Either<In>& dquery,
                                 const Either<In>& dkey,
                                 const Either<In>& dvalue);

// Calls f(integral constant) with the head width of a call that is for matrix units.
template <typename In, typename F>
bool with_matrix_width(const AttentionCall<In>& call, const F& f) {
  if constexpr (sizeof(In) == 2) {
    const auto aligned = [](const In* from) {
      return reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
    };
    if (call.dim != call.value_dim || call.key_table || call.value_table ||
        call.span.z != nullptr || !aligned(call.query) || !aligned(call.key) ||
        !aligned(call.value))
      return false;
    switch (call.dim) {
      case 32:
        f(std::integral_constant<int, 32>());
        return true;
      case 64:
        f(std::integral_constant<int, 64>());
        return true;
      case 96:
        f(std::integral_constant<int, 96>());
        return true;
      case 128:
        f(std::integral_constant<int, 128>());
        return true;
      default:
        return false;
    }
  }
  return false;
}

}  // namespace longspan::tile_attention
