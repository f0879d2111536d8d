// Applies masks, score terms and dropout to the products of a tile, which a warp has in registers.
// Rows are queries and columns keys, or vice versa if `transposed`; columns start at `first` of the
// tile. The constants n and s of WarpSums index elements.
#pragma once

#include "framework/kernels/attention/cuda/tile_schedule.h"

namespace longspan::tile_attention {

// Calls f(n, s) for the elements of a thread.
template <int columns, typename F>
__device__ __forceinline__ void each_element(F f) {
  unrolled<columns / 2>([&](auto e) {
    f(std::integral_constant<int, e / 4>(), std::integral_constant<int, e % 4>());
  });
}

// Calls f(n, s, bit) with each element's bit.
template <bool transposed, int columns, typename F>
__device__ __forceinline__ void each_bit(const PairBits& pairs, int first, F f) {
  constexpr int bits = 32;  // in a word
  using Sums = WarpSums<columns>;
  const auto call = [&](auto n, auto s, std::uint32_t word, int bit) {
    f(std::integral_constant<int, n>(), std::integral_constant<int, s>(), (word >> bit & 1) != 0);
  };
  if constexpr (transposed) {
    const int row = Sums::row(0);
    unrolled<columns / 4>([&](auto e) {
      constexpr std::integral_constant<int, e / 2> n;
      constexpr int p = e % 2;
      const std::uint32_t of_query =
          pairs.words[2 * (first + Sums::column(n, p)) + row / bits] >> row % bits;
      call(n, std::integral_constant<int, p>(), of_query, 0);
      call(n, std::integral_constant<int, 2 + p>(), of_query, 8);
    });
  } else {
    static_assert(columns % bits == 0);
    unrolled<2 * columns / bits>([&](auto part) {
      constexpr int r = part % 2, w = part / 2;
      const std::uint32_t of_keys =
          pairs.words[2 * Sums::row(2 * r) + first / bits + w] >> Sums::column(0, 0);
      unrolled<bits / 4>([&](auto e) {
        constexpr int n = e / 2, p = e % 2;
        call(std::integral_constant<int, w * bits / 8 + n>(),
             std::integral_constant<int, 2 * r + p>(),
             of_keys,
             8 * n + p);
      });
    });
  }
}

// Sets the scores of masked pairs to -infinity.
template <bool transposed, int columns>
__device__ __forceinline__ void hide_unseen(const TileKeys& keys,
                                            int first,
                                            WarpSums<columns>& scores) {
  each_bit<transposed, columns>(keys.visible, first, [&](auto n, auto s, bool seen) {
    if (!seen) scores.of[n][s] = minus_infinity<float>;
  });
}

// Whether any pair of the tile has the self score.
__device__ inline bool any_same(const TileKeys& keys) {
  return keys.any_same[0] || keys.any_same[1] || keys.any_same[2] || keys.any_same[3];
}

// Relative positions of a thread's elements.
template <bool transposed>
class Distances {
 public:
  template <typename In>
  __device__ Distances(const AttentionCall<In>& call, const TilePosition& at, int first) {
    for (int r = 0; r < 2; ++r) {
      const int row = WarpSums<tile>::row(2 * r), column = first + WarpSums<tile>::column(0, 0);
      of_first_[r] =
          static_cast<float>(origin_of(call, at) + (transposed ? column - row : row - column));
    }
  }
  __device__ float operator()(auto n, auto s) const {
    constexpr float further = 8 * n + s % 2;
    return transposed ? of_first_[s / 2] + further : of_first_[s / 2] - further;
  }

 private:
  float of_first_[2];
};

// Columns of a row in shared memory at once, and the row stride.
inline constexpr int stage_columns = 8;
inline constexpr int stage_step = stage_columns + 2;
inline constexpr std::size_t stage_bytes = tile * stage_step * sizeof(float);

// Replaces elements with f(row, column, element) in a loop, for an f too long to be unrolled over a
// thread's elements. Two adjacent threads share one row.
template <int columns, typename F>
__device__ __forceinline__ void change_by_stage(WarpSums<columns>& sums, float* stage, F f) {
  const int row = static_cast<int>(threadIdx.x) / 2;
  constexpr int own = stage_columns / 2;
  const int first = static_cast<int>(threadIdx.x) % 2 * own;
  unrolled<columns / stage_columns>([&](auto n) {
    const auto place = [&](auto s) -> float& {
      return stage[sums.row(s) * stage_step + sums.column(0, s)];
    };
    unrolled<4>([&](auto s) { place(s) = sums.of[n][s]; });
    __syncwarp();
#pragma unroll 1
    for (int c = first; c < first + own; ++c) {
      float& element = stage[row * stage_step + c];
      element = f(row, n * stage_columns + c, element);
    }
    __syncwarp();
    unrolled<4>([&](auto s) { sums.of[n][s] = place(s); });
    __syncwarp();
  });
}

// Converts products to scores in units of ln 2. With spans, calls inside(n, s): how far a key is
// inside its query's span.
template <bool transposed, typename In, int columns, typename Inside>
__device__ __forceinline__ void finish_scores(const AttentionCall<In>& call,
                                              const TilePosition& at,
                                              const TileKeys& keys,
                                              int first,
                                              float* stage,
                                              Inside inside,
                                              WarpSums<columns>& scores) {
  const float to_units = call.scale * log2_of_e;
  scores.change([=](int, int, float product, int) { return product * to_units; });
  if (call.hash.has_self && any_same(keys)) {
    const float self = call.hash.self * log2_of_e;
    each_bit<transposed, columns>(keys.same, first, [&](auto n, auto s, bool same) {
      if (same) scores.of[n][s] = self;
    });
  }
  if (call.slopes != nullptr) {
    const float slope = call.slopes[at.h] * log2_of_e;
    const Distances<transposed> distance(call, at, first);
    each_element<columns>(
        [&](auto n, auto s) { scores.of[n][s] -= slope * std::abs(distance(n, s)); });
  }
  if (call.bias.all != nullptr) {
    const std::int64_t origin = origin_of(call, at);
    each_element<columns>([&](auto n, auto s) {
      const int row = scores.row(s), column = first + scores.column(n, s);
      const int after = transposed ? row - column : column - row;
      scores.of[n][s] += log2_of_e * call.bias.at(at.h, after - origin);
    });
  }
  // Includes a token's pair with itself, which shares every round.
  if (call.hash.rounds > 0)
    change_by_stage(scores, stage, [&](int row, int column, float score) {
      const int i = transposed ? first + column : row, j = transposed ? row : first + column;
      if (!keys.visible(i, j)) return score;
      const std::int32_t position = call.query_position(at.b, at.h, at.query + i);
      return score -
             log2_of_e * call.hash.logarithm(at.b * call.heads + at.h, position, keys.position[j]);
    });
  // Without a floor, keys beyond the span are masked. If such a score were the row's maximum, the
  // other weights could underflow.
  if (call.span.z != nullptr && !(call.span.soft.floor > 0))
    each_element<columns>([&](auto n, auto s) {
      if (!(inside(n, s) > 0)) scores.of[n][s] = minus_infinity<float>;
    });
  if (!is_plain(call, at.full)) hide_unseen<transposed>(keys, first, scores);
}

}  // namespace longspan::tile_attention
