// A tile of the backward pass, whose probabilities are recomputed from the saved log-sum-exp.
#pragma once

#include <type_traits>

#include "framework/kernels/attention/cuda/block_range.h"
#include "framework/kernels/attention/cuda/tile.h"

namespace longspan::tile_attention {

// Whether score gradients may be saved as elements. In f16 they are scaled by the units of the sums
// they contribute to.
template <typename In>
inline constexpr bool may_retain_gradients = std::is_same_v<In, BFloat16>;

// Inputs of the kernels of the backward pass.
template <typename In>
struct GradientCall : GroupCall<In> {
  using T = Accumulator<In>;
  const In* dout;
  const T* delta;  // [batch, heads, time]: dout . out
  bool add;
  bool with_matrices;
  bool ahead = false;  // on matrix units: copies the next rows while these are multiplied
  // On matrix units, score gradients saved for reuse: [at least pairs(), visits of plan.by_query,
  // 64 keys, 64 queries].
  In* kept = nullptr;

  // If query heads share key heads, each query head's key gradients are written separately.
  __device__ bool adds_to_keys() const { return add && this->call.heads_of_key == 1; }
  // The saved tile of visit `number` of the plan's lists by query.
  __device__ In* saved_tile(std::int64_t b, std::int64_t h, std::int64_t number) const {
    const std::int64_t pair = (b - this->row_begin) * this->heads + h - this->head_begin;
    return kept + (pair * this->plan.by_query.visits + number) * tile * tile;
  }
};

// Partial sums of blocks, to be reduced later; null where not needed.
template <typename T>
struct BackwardParts {
  T* content_bias;   // [batch, heads, query tiles, dim]; key tiles on matrix units
  T* position_bias;  // [batch, heads, query tiles, dim]; diagonals on matrix units
  T* span;           // [batch, heads, time]
};

// Accumulators of the gradients of given scores; null without them.
template <typename T>
struct GivenGradients {
  T* row = nullptr;  // shaped as in GivenView
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

// Outputs of the kernels.
template <typename In>
struct Gradients {
  Either<In> dquery;
  Either<In> dkey;
  Either<In> dvalue;
  BackwardParts<Accumulator<In>> parts;
};

// Gradients of a tile: of the scores, or of the products, which differ if they are capped.
enum class Differentiated { scores, products };

// memory.first becomes the probabilities that weight the values, memory.second the unscaled score
// gradients. Returns this thread's part of its row's span gradient, times the ramp.
template <typename In>
__device__ Accumulator<In> differentiate(const GradientCall<In>& g,
                                         const TilePosition& at,
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
    // A self pair's score does not depend on the query or the key.
    dscores[j] = power == 0 || row.is_self(j) ? T{0} : power * change * slope;
  });
  return dspan * g.call.span.soft.step;
}

// Computes both from the inputs.
template <typename In>
__device__ Accumulator<In> read_gradients(const GradientCall<In>& g,
                                          const TilePosition& at,
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

// Diagonals [first, first + count), and the first relative position of diagonal 0.
struct Diagonals {
  std::int64_t first;
  std::int64_t count;
  std::int64_t origin;

  // The relative position of band row e of diagonal first + i.
  __device__ std::int64_t distance(std::int64_t i, std::int64_t e) const {
    return origin + (first + i) * tile + tile - 1 - e;
  }
};

enum class TileKind { none, partial, full };

// A tile's entry in a list: its kind, and its visit number over all lists.
struct Visit {
  TileKind kind;
  std::int64_t number;
};
// Finds a key tile in the lists by query.
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

// Adds to the gradient of a relative-position table: [distances, heads, width], or [2 K + 1, width]
// if clipped. Sums the contributions of the probabilities (value table) or score gradients of all
// heads, in an order that depends only on the sizes. On matrix units, also accumulates the gradient
// of the position bias into `bias_gradient`, if defined.
template <typename In>
void add_table_gradient(Cuda cuda,
                        const GradientCall<In>& g,
                        const TilePlan& plan,
                        bool of_values,
                        const Tensor& gradient,
                        const Tensor& bias_gradient);

// Adds to the gradient of learned biases by relative position: [heads, 2 K + 1], separate for each
// head.
template <typename In>
void add_distance_bias_gradient(Cuda cuda,
                                const GradientCall<In>& g,
                                const TilePlan& plan,
                                const Tensor& gradient);

}  // namespace longspan::tile_attention
