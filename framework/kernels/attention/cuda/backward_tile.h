// A tile of the backward pass: its probabilities are rebuilt from the saved log-sum-exp.
#pragma once

#include <type_traits>

#include "framework/kernels/attention/cuda/block_range.h"
#include "framework/kernels/attention/cuda/tile.h"

namespace longspan::tile_attention {

// Gradients of scores in an element's bits may be kept: of float16 they have units of the sums that
// they go into.
template <typename In>
inline constexpr bool may_keep_gradients = std::is_same_v<In, BFloat16>;

// What the kernels of the backward pass read.
template <typename In>
struct GradientCall : GroupCall<In> {
  using T = Accumulator<In>;
  const In* dout;
  const T* delta;  // [batch, heads, time]: dout . out
  bool add;
  bool with_matrices;
  bool ahead = false;  // with matrix units: the next rows arrive while these are multiplied
  // With matrix units, where gradients of scores are made once and kept: [at least pairs(), visits
  // of plan.by_query, 64 keys, 64 queries].
  In* kept = nullptr;

  // Where heads share keys, each head's gradients of them are written by themselves.
  __device__ bool adds_to_keys() const { return add && this->call.heads_of_key == 1; }
  // That of tile `number` of the plan's by query.
  __device__ In* kept_tile(std::int64_t b, std::int64_t h, std::int64_t number) const {
    const std::int64_t pair = (b - this->row_begin) * this->heads + h - this->head_begin;
    return kept + (pair * this->plan.by_query.visits + number) * tile * tile;
  }
};

// Where blocks put what is summed up over them after: null where it is not needed.
template <typename T>
struct BackwardParts {
  T* content_bias;   // [batch, heads, query tiles, dim]; with matrix units key tiles
  T* position_bias;  // the same; with matrix units diagonals have the parts
  T* span;           // [batch, heads, time]
};

// What the gradients of given scores are added to; null where there are none.
template <typename T>
struct GivenGradients {
  T* row = nullptr;  // shaped as those of GivenView
  T* low = nullptr;
  T* high = nullptr;

  GivenGradients() = default;
  GivenGradients(const ExternalScores& given, const ExternalScores& gradients) {
    if (given.row.defined()) row = gradients.row.data<T>();
    if (!given.low.defined()) return;
    low = gradients.low.data<T>();
    high = gradients.high.data<T>();
  }
};

// What they write.
template <typename In>
struct Gradients {
  Either<In> dquery;
  Either<In> dkey;
  Either<In> dvalue;
  BackwardParts<Accumulator<In>> parts;
};

// Of what a tile's gradients are: of scores as they are, or of products, which may be capped.
enum class Differentiated { scores, products };

// memory.first becomes the probabilities that weigh the values, memory.second the gradients of the
// scores, not yet scaled. Returns this thread's part of its row's gradient of the span, over the
// ramp.
template <typename In>
__device__ Accumulator<In> differentiate(const GradientCall<In>& g,
                                         const TilePlace& at,
                                         const TileMemory<Accumulator<In>>& memory,
                                         Differentiated what) {
  using T = Accumulator<In>;
  const int i = static_cast<int>(threadIdx.x) / 2;
  const TileRow<In> row(g.call, at, *memory.keys, i);
  const bool real = at.query + i < g.call.time;
  const std::int64_t place = (at.b * g.call.heads + at.h) * g.call.time + at.query + i;
  const T log_sum_exp = real ? g.call.log_sum_exp[place] : T{0};
  const T delta = real ? g.delta[place] : T{0};
  T* const scores = memory.first + i * tile_step;
  T* const dscores = memory.second + i * tile_step;
  T dspan = 0;
  row.each([&](int j, T keep) {
    const T slope = what == Differentiated::products ? row.cap_slope(scores[j]) : T{1};
    const T power =
        log_sum_exp == minus_infinity<T> ? T{0} : std::exp(row.score(j, scores[j]) - log_sum_exp);
    T kept = power * keep;
    T change = dscores[j] * keep - delta;
    if (g.call.span.z != nullptr) {
      const T soft = row.soft(j);
      if (power != 0 && row.is_on_ramp(j)) dspan += power * change;
      kept *= soft;
      change = soft * change - g.call.span.soft.floor * delta;
    }
    scores[j] = kept;
    // The score of a pair with itself does not depend on the query or the key.
    dscores[j] = power == 0 || row.is_self(j) ? T{0} : power * change * slope;
  });
  return dspan * g.call.span.soft.step;
}

// Both, from the inputs.
template <typename In>
__device__ Accumulator<In> read_gradients(const GradientCall<In>& g,
                                          const TilePlace& at,
                                          const TileMemory<Accumulator<In>>& memory,
                                          Differentiated what = Differentiated::products) {
  using T = Accumulator<In>;
  read_scores(g.call, g.plan.mask, at, memory);
  const TileRows<In> rows{g.call, at, *memory.keys};
  const auto dout = [&](int i, int c) { return rows.of_query(g.dout, i, c); };
  Sums<T> sums;
  add_row_products(
      sums, g.call.value_dim, memory.stage, dout, [&](int j, int c) { return rows.value(j, c); });
  if (g.call.value_table)
    add_distance_products(
        sums, g.call.value_table, at.h, origin_of(g.call, at), memory.stage, dout);
  sums.write(memory.second);
  __syncthreads();
  const T dspan = differentiate(g, at, memory, what);
  __syncthreads();
  return dspan;
}

// Diagonals [first, first + count) and where the distances of diagonal 0 begin.
struct Diagonals {
  std::int64_t first;
  std::int64_t count;
  std::int64_t origin;

  // The distance of band row e of diagonal i of them.
  __device__ std::int64_t distance(std::int64_t i, std::int64_t e) const {
    return origin + (first + i) * tile + tile - 1 - e;
  }
};

enum class TileKind { none, partial, full };

// What a list knows of a tile: nothing, or as the how many-th of all lists it is visited.
struct Visit {
  TileKind kind;
  std::int64_t number;
};
// Of a tile of keys, in the lists by query.
template <typename In>
__device__ Visit find_visit(const GradientCall<In>& g,
                            std::int64_t b,
                            std::int64_t query_tile,
                            std::int64_t key_tile) {
  const TileLists& lists = g.plan.by_query;
  if (key_tile < g.call.first_key_tile(b, query_tile)) return {TileKind::none, 0};
  std::int64_t begin = lists.begin[query_tile], end = lists.begin[query_tile + 1];
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    const TileRun run = lists.runs[middle];
    if (run.begin <= key_tile && key_tile < run.end) {
      const bool full = run.full != 0 && g.call.reaches(b, query_tile * tile, key_tile * tile);
      return {full ? TileKind::full : TileKind::partial,
              lists.before[middle] + key_tile - run.begin};
    }
    if (run.end <= key_tile)
      begin = middle + 1;
    else
      end = middle;
  }
  return {TileKind::none, 0};
}

// Adds to the gradient of a table of distances, [distances, heads, width] or with clipped distances
// [2 K + 1, width], what the probabilities (of the value table) or gradients of scores of all heads
// give. In an order that depends on the sizes alone. With `bias_gradient`, by matrix units: adds to
// it what the position bias gets.
template <typename In>
void add_table_gradient(Cuda cuda,
                        const GradientCall<In>& g,
                        const TilePlan& plan,
                        bool of_values,
                        const Tensor& gradient,
                        const Tensor& bias_gradient);

// The same of learned biases by distance, [heads, 2 K + 1], of which each head has its own.
template <typename In>
void add_distance_bias_gradient(Cuda cuda,
                                const GradientCall<In>& g,
                                const TilePlan& plan,
                                const Tensor& gradient);

}  // namespace longspan::tile_attention
