// Forward pass: one work item is a block of query tiles of one batch row and head. It visits the
// listed key tiles and maintains the running maximum, sum and output of each row (online softmax,
// Milakov & Gimelshein 2018).
#include "framework/kernels/attention/attention.h"

#include <omp.h>

#include <algorithm>

#include "framework/kernels/attention/check.h"
#include "framework/kernels/attention/cpu/attention_problem.h"
#include "framework/kernels/attention/cpu/dropout.h"
#include "framework/kernels/attention/cpu/terms.h"
#include "framework/kernels/attention/cpu/transposed_tile.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace tile_attention {
namespace {

template <typename In>
struct Forward {
  using T = Accumulator<In>;
  using E = Element<In>;

  // Without a workspace block it only measures its size.
  Forward(const Problem<In>& problem, const QueryBiases<In>& query_biases, ScratchArena carver)
      : p(problem),
        biases(query_biases),
        keep(problem),
        key_bands(problem.key_table, carver),
        value_bands(problem.value_table, carver),
        terms(problem, carver) {
    const std::int64_t block = block_tiles * tile;
    query = carver.take<E>(block * p.dim_padded);
    position_query = p.call.relative ? carver.take<E>(block * p.dim_padded) : query;
    out = carver.take<T>(block * p.value_padded);
    maximum = carver.take<T>(block);
    sum = carver.take<T>(block * lanes<T>);
    key_rows = carver.take<E>(tile * p.dim_padded);
    key_columns = carver.take<E>(p.dim_padded * tile);
    value_rows = carver.take<E>(tile * p.value_padded);
    scores = carver.take<T>(tile * tile);
    if (scores != nullptr) std::fill_n(scores, tile * tile, T{0});
    if (group < E >> 1) {
      value_stack = carver.take<E>(tile * p.value_padded);
      probabilities = carver.take<E>(tile * tile);
    }
    if (p.value_table) {
      skewed = carver.take<E>(tile * skew_step + 2 * lanes<T> * group<E>);
      if (skewed != nullptr) std::fill_n(skewed, tile * skew_step, E{});
    }
    if (p.keys_by_distance) {
      transposed_keys = carver.take<E>(tile * p.dim_padded);
      transposed_scores = carver.take<T>(tile * tile);
    }
    bytes = carver.used();
  }

  void run(std::int64_t batch_row, std::int64_t head, Interval queries) {
    b = batch_row;
    h = head;
    begin(queries);
    TileWalk walk(p.first_key_tile(b, queries.begin));
    for (std::int64_t q = queries.begin; q < queries.end; q += tile)
      walk.add(p.plan(h).key_runs(q / tile));
    while (walk.next()) {
      const Interval at = p.key_tile(walk.tile());
      key_lanes.read(p, b, h, at);
      if (!key_lanes.any_visible()) continue;
      read_keys(at);
      for (std::int64_t q = queries.begin; q < queries.end; q += tile)
        visit({q, std::min(q + tile, queries.end)},
              q - queries.begin,
              at,
              walk.kind((q - queries.begin) / tile));
    }
    finish(queries);
  }

  void begin(Interval queries) {
    const std::int64_t rows = queries.end - queries.begin;
    const auto from = p.query_rows(b, h, queries.begin);
    read_rows<In, E>(from, rows, p.dim, biases.content(h), query);
    if (p.call.relative) read_rows<In, E>(from, rows, p.dim, biases.position(h), position_query);
    std::fill_n(out, rows * p.value_padded, T{0});
    std::fill_n(maximum, rows, minus_infinity<T>);
    std::fill_n(sum, rows * lanes<T>, T{0});
    key_bands.forget();
    value_bands.forget();
  }

  void read_keys(Interval at) {
    if (!few()) {
      read_key_tile(p.key_rows(b, h, at.begin), at, p.dim, key_lanes.valid_mask, key_rows);
      transpose(key_rows, tile, p.dim_padded, key_columns, tile);
      if (p.keys_by_distance) reverse_rows(key_rows, p.dim_padded, transposed_keys);
    }
    value_step = p.value_padded;
    if constexpr (std::is_same_v<In, E> && group<E> == 1) {
      // Copying values does not pay if only a few queries read them. With gaps, the missing rows
      // must be read as zeros.
      const bool has_gaps = (key_lanes.valid_mask & (key_lanes.valid_mask + 1)) != 0;
      if (few() && !has_gaps && p.value_dim == p.value_padded) {
        const auto rows = p.value_rows(b, h, at.begin);
        value = rows.data;
        value_step = rows.step;
        return;
      }
    }
    read_key_tile(p.value_rows(b, h, at.begin), at, p.value_dim, key_lanes.valid_mask, value_rows);
    value = stack(value_rows, tile, p.value_padded, p.value_padded, 0, value_stack);
  }

  // `first` is the offset of the query tile in the block.
  void visit(Interval queries, std::int64_t first, Interval at, TileKind planned) {
    if (planned == TileKind::none) return;
    const TileView view = view_of(p, b, h, queries, at, planned, key_lanes, bits);
    if (view.kind == TileKind::none) return;
    read_scores(view, first);
    terms.cap(view, scores, nullptr);
    terms.apply(b, h, view, key_lanes, scores);
    if (view.kind == TileKind::partial) mask_scores(view, scores);
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      if (p.call.span) {
        const SpanRow<T> span(p, b, h, queries.begin + r, static_cast<T>(view.origin + r));
        span.hide_beyond(scores + r * tile);
        online_softmax_update(scores + r * tile, first + r, span);
      } else {
        online_softmax_update(scores + r * tile, first + r, 1);
      }
    }
    if (keep.active()) drop(queries, at);
    const E* weights = narrow(scores, round_up(view.rows() * tile, 2 * tile), probabilities);
    T* sums = out + first * p.value_padded;
    add_product<false>(
        view.rows(),
        p.value_padded,
        Factors<E>{tile / group<E>, weights, tile, value, value_step, sums, p.value_padded},
        [&](std::int64_t begin, std::int64_t end) { return view.visible_columns(begin, end); });
    if (!p.value_table) return;
    for (std::int64_t r = 0; r < view.rows(); ++r)
      std::copy_n(weights + r * tile, tile, skewed + r * skew_step + skew_margin);
    add_distance_rows(view, skewed, value_bands.at(h, view.origin), p.value_padded, sums);
  }

  void read_scores(const TileView& view, std::int64_t first) {
    if (few()) return score_rows(view, first);
    product(view.rows(),
            Factors<E>{p.dim_lanes(),
                       query + first * p.dim_padded,
                       p.dim_padded,
                       key_columns,
                       tile,
                       scores,
                       tile},
            [&](std::int64_t begin, std::int64_t end) { return view.visible_columns(begin, end); });
    if (p.key_table)
      add_distance_products(view,
                            position_query + first * p.dim_padded,
                            p.dim_lanes(),
                            p.dim_padded,
                            key_bands.at(h, view.origin),
                            scores);
    if (p.keys_by_distance)
      add_key_distance_products(view,
                                transposed_keys,
                                p.dim_lanes(),
                                p.dim_padded,
                                key_bands.at(h, view.origin),
                                transposed_scores,
                                scores);
  }

  // With few queries (generation, or token-by-token evaluation), transposing the keys costs more
  // than the scores. Each score is then a dot product with the key in place.
  bool few() const { return p.time <= 4; }

  void score_rows(const TileView& view, std::int64_t first) {
    const auto keys = p.key_rows(b, h, view.keys.begin);
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      for (std::uint64_t seen = view.row(r); seen != 0; seen &= seen - 1) {
        const std::int64_t j = std::countr_zero(seen);
        T& sum_of_pair = scores[r * tile + j];
        sum_of_pair = dot(query + (first + r) * p.dim_padded, keys.row(j), p.dim);
        if (p.key_table)
          sum_of_pair += dot(position_query + (first + r) * p.dim_padded,
                             p.key_table.row(h, view.origin + r - j),
                             p.dim);
        if (p.keys_by_distance)
          sum_of_pair += dot(keys.row(j), p.key_table.row(h, view.origin + r - j), p.dim);
      }
    }
  }

  // Converts scores to probabilities relative to the row's new maximum, and rescales the previous
  // sums. `span` is 1, or the soft span of the row.
  template <typename Span>
  void online_softmax_update(T* score, std::int64_t row, [[maybe_unused]] const Span& span) {
    const Tag<T> tag;
    const T factor = p.scale * score_units<T>;
    auto largest = hn::LoadU(tag, score);
    for (std::int64_t j = lanes<T>; j < tile; j += lanes<T>)
      largest = hn::Max(largest, hn::LoadU(tag, score + j));
    const T here = hn::GetLane(hn::MaxOfLanes(tag, largest)) * factor;
    const T before = maximum[row];
    auto total = hn::LoadU(tag, sum + row * lanes<T>);
    if (!(here <= before)) {
      maximum[row] = here;
      const auto shrink = hn::Set(tag, exponential_of(before - here));
      total = hn::Mul(total, shrink);
      T* to = out + row * p.value_padded;
      for (std::int64_t c = 0; c < p.value_padded; c += lanes<T>)
        hn::StoreU(hn::Mul(hn::LoadU(tag, to + c), shrink), tag, to + c);
    }
    // In a row that has seen no key yet, all scores are -infinity and all probabilities 0.
    const T against = maximum[row] == minus_infinity<T> ? T{0} : maximum[row];
    for (std::int64_t j = 0; j < tile; j += lanes<T>) {
      const auto power = fast_exp(
          hn::MulSub(hn::LoadU(tag, score + j), hn::Set(tag, factor), hn::Set(tag, against)));
      if constexpr (std::is_same_v<Span, int>) {
        total = hn::Add(total, power);
        hn::StoreU(power, tag, score + j);
      } else {
        const auto kept = hn::Mul(span.factors(j), power);
        const auto floor = hn::Set(tag, span.floor);
        total = hn::Add(total, hn::MulAdd(floor, power, kept));
        hn::StoreU(kept, tag, score + j);
      }
    }
    hn::StoreU(total, tag, sum + row * lanes<T>);
  }

  void drop(Interval queries, Interval at) {
    alignas(64) T factors[tile];
    for (std::int64_t i = queries.begin; i < queries.end; ++i) {
      keep.read(b, h, i, at.begin, factors);
      T* row = scores + (i - queries.begin) * tile;
      for (std::int64_t j = 0; j < tile; ++j) row[j] *= factors[j];
    }
  }

  void finish(Interval queries) {
    In* to = p.call.out.template data<In>();
    T* log_sum_exp = p.log_sum_exp(b, h, queries.begin);
    const auto target = p.rows(to, b, p.time, h, p.value_dim, queries.begin);
    for (std::int64_t r = 0; r < queries.end - queries.begin; ++r) {
      const Tag<T> tag;
      const T total = hn::GetLane(hn::SumOfLanes(tag, hn::LoadU(tag, sum + r * lanes<T>)));
      const bool seen = total != 0;
      write_row(out + r * p.value_padded, p.value_dim, seen ? 1 / total : T{0}, target.row(r));
      log_sum_exp[r] = seen ? fast_log(maximum[r], total) : minus_infinity<T>;
    }
  }

  const Problem<In>& p;
  const QueryBiases<In>& biases;
  DropoutMask<In> keep;
  RelativeBands<In> key_bands;
  RelativeBands<In> value_bands;
  ScoreTerms<In> terms;
  KeyLanes key_lanes;
  std::uint64_t bits[tile];  // of a partial tile
  std::int64_t b = 0;
  std::int64_t h = 0;
  E* query;                     // [block, dim_padded], with the content bias
  E* position_query;            // with the position bias; may equal `query`
  T* out;                       // [block, value_padded]
  T* maximum;                   // [block], in score units
  T* sum;                       // [block, lanes]: partial sums of each row
  E* key_rows;                  // [tile, dim_padded]
  E* key_columns;               // [dim_padded, tile] elements
  E* value_rows;                // [tile, value_padded]
  E* value_stack = nullptr;     // the stacked form, if different
  const E* value = nullptr;     // either, or the values in place
  std::int64_t value_step = 0;  // row stride of `value`
  T* scores;                    // [tile, tile]
  E* probabilities = nullptr;   // the scores as elements, if different
  E* skewed = nullptr;          // [tile, skew_step]: probabilities with zeros in the margins
  // [tile, dim_padded], reversed keys, with products of keys and the table
  E* transposed_keys = nullptr;
  T* transposed_scores = nullptr;  // [tile, tile]
  std::int64_t bytes;
};

template <typename In>
void run_forward(const Attention& a, const ExternalScores& given) {
  const Problem<In> p(a, given);
  const QueryBiases<In> biases(p);
  // The last queries see most keys. They run first, so that no thread starts the longest item last.
  const std::int64_t pairs = p.batch * p.heads;
  std::int64_t block = block_tiles * tile;
  const std::int64_t threads = useful_threads(p);
  while (block > tile && pairs * ((p.time + block - 1) / block) < 4 * threads) block /= 2;
  const std::int64_t blocks = (p.time + block - 1) / block;
  const std::int64_t items = pairs * blocks;
  if (items == 0) return;
  const std::int64_t workers = std::min(threads, items);
  const std::int64_t bytes = Forward<In>(p, biases, ScratchArena(nullptr)).bytes;
  const Tensor workspace =
      Tensor::empty({workers, bytes}, DType::u8, a.query.device(), MemoryTag::workspace);
  if (DeviceState& device = a.query.device().state(); device.is_meta()) {
    device.count_flops(attention_flops(a) + external_score_flops(a, given));
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(workers))
  {
    Forward<In> forward(p, biases, ScratchArena(workspace.bytes() + omp_get_thread_num() * bytes));
#pragma omp for schedule(dynamic)
    for (std::int64_t item = 0; item < items; ++item) {
      const std::int64_t first = (blocks - 1 - item / pairs) * block;
      forward.run(item % pairs / p.heads, item % p.heads, {first, std::min(first + block, p.time)});
    }
  }
}

}  // namespace
}  // namespace tile_attention

void attention(Cpu cpu, const Attention& a) { attention(cpu, a, ExternalScores()); }

void attention(Cpu cpu, const Attention& a, const ExternalScores& given) {
  if (tile_attention::counts_only(a))
    return cpu.state->count_flops(attention_flops(a) +
                                  tile_attention::external_score_flops(a, given));
  tile_attention::check(a);
  tile_attention::check(a, given);
  with_floating_type(a.query.dtype(), [&](auto tag) {
    tile_attention::run_forward<typename decltype(tag)::type>(a, given);
  });
}

}  // namespace longspan
HWY_AFTER_NAMESPACE();
