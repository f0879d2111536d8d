// The backward pass of one batch row, head and range of key blocks. Keys are packed once, query
// tiles stream past them: each tile of probabilities is rebuilt from the log-sum-exp.
#pragma once

#include <algorithm>

#include "framework/kernels/cpu/attention_dropout.h"
#include "framework/kernels/cpu/attention_problem.h"
#include "framework/kernels/cpu/attention_relative.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

// Where one head's gradients of the relative term gather, not yet scaled. Tiles reach past both
// ends of the distances by less than the margin; what they add there is zero.
template <typename T>
struct RelativeSums {
  static constexpr std::int64_t margin = 2 * tile;

  T* position_key = nullptr;  // [distances + 2 margin, dim_padded]
  T* score = nullptr;         // [distances + 2 margin]: sums of score gradients by distance
  T* content_bias = nullptr;  // [dim_padded]

  static std::int64_t elements(std::int64_t distances, std::int64_t dim_padded) {
    return (distances + 2 * margin) * (dim_padded + 1) + dim_padded + 64;
  }
  RelativeSums() = default;
  RelativeSums(T* block, std::int64_t distances, std::int64_t dim_padded)
      : position_key(block),
        score(block + (distances + 2 * margin) * dim_padded),
        content_bias(score + padded<T>(distances + 2 * margin)) {}
};

template <typename In>
class Backward {
 public:
  using T = Accumulator<In>;
  using E = Element<In>;

  // With no block of workspace it only measures what it needs.
  Backward(const Problem<In>& problem,
           const QueryBiases<In>& biases,
           const AttentionGradient& g,
           Carver carver)
      : p(problem), biases_(biases), gradient_(g), keep_(problem), bands_(problem, carver) {
    take(carver, query_, p.dim_padded);
    if (p.call.relative) take(carver, position_query_, p.dim_padded);
    take(carver, dout_, p.value_padded);
    take(carver, key_, p.dim_padded);
    value_rows_ = carver.take<E>(tile * p.value_padded);
    scores_ = carver.take<T>(tile * tile);
    dprobabilities_ = carver.take<T>(tile * tile);
    dscores_ = carver.take<T>(tile * skew_step);
    if (group < E >> 1) {
      take(carver, narrow_probabilities_, tile);
      take(carver, narrow_dscores_, skew_step);
      skewed_ = carver.take<E>(tile * skew_step);
    }
    if (dscores_ != nullptr) {
      std::fill_n(dscores_, tile * skew_step, T{0});
      std::fill_n(scores_, tile * tile, T{0});
      std::fill_n(dprobabilities_, tile * tile, T{0});
    }
    for (KeyTile& t : key_tiles_) {
      t.rows = carver.take<E>(tile * p.dim_padded);
      t.columns = carver.take<E>(p.dim_padded * tile);
      t.value_columns = carver.take<E>(p.value_padded * tile);
      t.dkey = carver.take<T>(tile * p.dim_padded);
      t.dvalue = carver.take<T>(tile * p.value_padded);
    }
    bytes_ = carver.used();
  }
  std::int64_t bytes() const { return bytes_; }

  // Adds to dquery [time, dim_padded], not yet scaled, and writes dkey and dvalue of the blocks.
  void run(std::int64_t b, std::int64_t h, Interval key_blocks, T* dquery, RelativeSums<T> sums) {
    b_ = b;
    h_ = h;
    dquery_ = dquery;
    sums_ = sums;
    bands_.forget();
    for (std::int64_t block = key_blocks.begin; block < key_blocks.end; ++block) {
      const Interval tiles{block * block_tiles,
                           std::min((block + 1) * block_tiles, p.plan.key_tiles())};
      read_keys(tiles);
      const Interval seen{tiles.begin * tile, std::min(tiles.end * tile, p.keys)};
      const Interval visited = p.plan.query_tiles_of(seen);
      for (std::int64_t q = visited.begin; q < visited.end; ++q) {
        const Interval queries = p.plan.query_tile(q);
        read_queries(queries);
        for (std::int64_t t = 0; t < tiles.end - tiles.begin; ++t) visit(queries, key_tiles_[t]);
      }
      for (std::int64_t t = 0; t < tiles.end - tiles.begin; ++t) finish(key_tiles_[t]);
    }
  }

 private:
  struct KeyTile {
    Interval at{0, 0};
    KeyLanes<T> lanes_seen;
    E* rows = nullptr;           // [tile, dim_padded], stacked
    E* columns = nullptr;        // [dim_padded, tile] elements
    E* value_columns = nullptr;  // [value_padded, tile] elements
    T* dkey = nullptr;           // [tile, dim_padded]
    T* dvalue = nullptr;         // [tile, value_padded]
    alignas(64) T dscore[tile];  // sums of score gradients by key
  };

  // A tile of rows, and the same stacked where that is not the same.
  struct Factor {
    E* rows = nullptr;
    E* stacked = nullptr;
    const E* stack_of(std::int64_t count, std::int64_t width) {
      if constexpr (group < E >> 1)
        if (count % 2 != 0) std::fill_n(rows + count * width, width, E{});
      return stack(rows, round_up(count, group<E>), width, width, 0, stacked);
    }
  };
  static void take(Carver& carver, Factor& factor, std::int64_t width) {
    // Two vectors more: a shifted row reads past its end.
    factor.rows = carver.take<E>(tile * width + 2 * lanes<T> * group<E>);
    if (group < E >> 1) factor.stacked = carver.take<E>(tile * width);
  }

  void read_keys(Interval tiles) {
    for (std::int64_t i = tiles.begin; i < tiles.end; ++i) {
      KeyTile& t = key_tiles_[i - tiles.begin];
      t.at = p.plan.key_tile(i);
      t.lanes_seen.read(p, b_, t.at);
      E* rows = group<E> > 1 ? key_.rows : t.rows;
      read_key_tile(p.key_rows(b_, h_, t.at.begin), t.at, p.dim, t.lanes_seen, rows);
      transpose(rows, tile, p.dim_padded, t.columns, tile);
      stack(rows, tile, p.dim_padded, p.dim_padded, 0, t.rows);
      read_key_tile(p.value_rows(b_, h_, t.at.begin), t.at, p.value_dim, t.lanes_seen, value_rows_);
      transpose(value_rows_, tile, p.value_padded, t.value_columns, tile);
      std::fill_n(t.dkey, tile * p.dim_padded, T{0});
      std::fill_n(t.dvalue, tile * p.value_padded, T{0});
      std::fill_n(t.dscore, tile, T{0});
    }
  }

  void read_queries(Interval queries) {
    const std::int64_t rows = queries.end - queries.begin;
    const auto from = p.query_rows(b_, h_, queries.begin);
    read_rows<In, E>(from, rows, p.dim, biases_.content(h_), query_.rows);
    query_stack_ = query_.stack_of(rows, p.dim_padded);
    if (p.call.relative) {
      read_rows<In, E>(from, rows, p.dim, biases_.position(h_), position_query_.rows);
      position_query_stack_ = position_query_.stack_of(rows, p.dim_padded);
    }
    const auto dout =
        p.rows(gradient_.dout.template data<In>(), b_, p.time, h_, p.value_dim, queries.begin);
    const auto out =
        p.rows(p.call.out.template data<In>(), b_, p.time, h_, p.value_dim, queries.begin);
    read_rows<In, E>({dout.data, dout.step}, rows, p.value_dim, nullptr, dout_.rows);
    dout_stack_ = dout_.stack_of(rows, p.value_padded);
    const T* log_sum_exp = p.log_sum_exp(b_, h_, queries.begin);
    for (std::int64_t r = 0; r < rows; ++r) {
      const E* dout_row = dout_.rows + r * p.value_padded;
      const In* out_row = out.row(r);
      delta_[r] = dot(dout_row, out_row, p.value_dim);
      // A row that sees no key: +infinity here makes its probabilities 0.
      subtract_[r] = log_sum_exp[r] == minus_infinity<T> ? -minus_infinity<T>
                                                         : log_sum_exp[r] * score_units<T>;
    }
  }

  void visit(Interval queries, KeyTile& t) {
    const TileView view(p.plan, queries, t.at);
    if (view.kind == TileKind::none || !t.lanes_seen.any_seen) return;
    const auto columns = [&](std::int64_t begin, std::int64_t end) {
      return view.columns_seen(begin, end);
    };
    const auto rows = [&](std::int64_t begin, std::int64_t end) {
      return view.rows_seeing(begin, end);
    };
    product(view.rows(),
            Factors<E>{p.dim_lanes(), query_.rows, p.dim_padded, t.columns, tile, scores_, tile},
            columns);
    if (p.call.relative)
      add_relative_scores(p, view, position_query_.rows, bands_.at(h_, view.origin()), scores_);
    if (view.kind == TileKind::partial || !t.lanes_seen.all_seen)
      mask_scores(view, t.lanes_seen.bias, scores_);
    product(view.rows(),
            Factors<E>{p.value_lanes(),
                       dout_.rows,
                       p.value_padded,
                       t.value_columns,
                       tile,
                       dprobabilities_,
                       tile},
            columns);
    differentiate(queries, t);
    const std::int64_t depth = view.rows();
    const E* weights = weights_stack(depth);
    const E* dscores = dscores_rows(depth);
    const E* dscores_stack =
        stack(
            dscores, round_up(depth, group<E>), skew_step, skew_step, 0, narrow_dscores_.stacked) +
        skew_margin * group<E>;
    add_product<true>(
        tile,
        p.value_padded,
        Factors<E>{0, weights, tile, dout_stack_, p.value_padded, t.dvalue, p.value_padded},
        rows);
    add_product<true>(
        tile,
        p.dim_padded,
        Factors<E>{0, dscores_stack, skew_step, query_stack_, p.dim_padded, t.dkey, p.dim_padded},
        rows);
    add_product<false>(view.rows(),
                       p.dim_padded,
                       Factors<E>{0,
                                  dscores + skew_margin,
                                  skew_step,
                                  t.rows,
                                  p.dim_padded,
                                  dquery_ + queries.begin * p.dim_padded,
                                  p.dim_padded},
                       columns);
    if (p.call.relative) visit_relative(view, t, dscores);
  }

  // The probabilities, stacked; and the gradients of the scores, rows with their margins.
  const E* weights_stack(std::int64_t rows) {
    if constexpr (group<E> == 1) {
      return scores_;
    } else {
      narrow(scores_, round_up(rows * tile, 2 * lanes<T>), narrow_probabilities_.rows);
      return narrow_probabilities_.stack_of(rows, tile);
    }
  }
  const E* dscores_rows(std::int64_t rows) {
    if constexpr (group<E> == 1) {
      return dscores_;
    } else {
      narrow(dscores_, rows * skew_step, narrow_dscores_.rows);
      if (rows % 2 != 0) std::fill_n(narrow_dscores_.rows + rows * skew_step, skew_step, E{});
      return narrow_dscores_.rows;
    }
  }

  // scores_ becomes the probabilities that weigh the values, dscores_ the gradient of the scores.
  void differentiate(Interval queries, const KeyTile& t) {
    const Tag<T> tag;
    const auto factor = hn::Set(tag, p.scale * score_units<T>);
    alignas(64) T keep[tile];
    for (std::int64_t r = 0; r < queries.end - queries.begin; ++r) {
      const auto subtract = hn::Set(tag, subtract_[r]);
      const auto delta = hn::Set(tag, delta_[r]);
      T* score = scores_ + r * tile;
      const T* dprobability = dprobabilities_ + r * tile;
      T* dscore = dscores_ + r * skew_step + skew_margin;
      if (keep_.active()) keep_.read(b_, h_, queries.begin + r, t.at.begin, keep);
      for (std::int64_t j = 0; j < tile; j += lanes<T>) {
        const auto power = exponential(hn::MulSub(hn::LoadU(tag, score + j), factor, subtract));
        auto dpower = hn::LoadU(tag, dprobability + j);
        auto kept = power;
        if (keep_.active()) {
          const auto weight = hn::Load(tag, keep + j);
          kept = hn::Mul(power, weight);
          dpower = hn::Mul(dpower, weight);
        }
        hn::StoreU(kept, tag, score + j);
        // Where a key is not seen dpower may be anything: it is not computed there.
        const auto seen = hn::Ne(power, hn::Zero(tag));
        hn::StoreU(
            hn::IfThenElseZero(seen, hn::Mul(power, hn::Sub(dpower, delta))), tag, dscore + j);
      }
    }
  }

  void visit_relative(const TileView& view, KeyTile& t, const E* dscores) {
    const Band<E>& distances = bands_.at(h_, view.origin());
    T* dquery = dquery_ + view.queries.begin * p.dim_padded;
    for (std::int64_t i = 0; i < view.rows(); i += block_rows) {
      const std::int64_t count = std::min<std::int64_t>(block_rows, view.rows() - i);
      const Interval seen = view.columns_seen(i, i + count);
      // Row i + r reads columns 63 - i - r + j; the block begins where its last row does, or one
      // before so that the columns are paired as they are stacked.
      std::int64_t first = tile - 1 - i - (count - 1);
      first -= first % group<E>;
      const std::int64_t shift = tile - 1 - i - first;
      add_product<false>(count,
                         p.dim_padded,
                         Factors<E>{0,
                                    dscores + i * skew_step + skew_margin - shift,
                                    skew_step + 1,
                                    distances.rows + first * p.dim_padded,
                                    p.dim_padded,
                                    dquery + i * p.dim_padded,
                                    p.dim_padded},
                         [&](std::int64_t, std::int64_t) {
                           return Interval{seen.begin + shift - (count - 1), seen.end + shift};
                         });
    }
    add_distance_gradients(view, dscores);
    sum_scores(view, t);
  }

  // Column c of the band gathers the elements (i, c - 63 + i) of the rows i where that lies in the
  // tile: down the rows of score gradients, one further right in each.
  void add_distance_gradients(const TileView& view, const E* dscores) {
    const E* skewed =
        stack(dscores, round_up(view.rows(), group<E>), skew_step, skew_step, 1, skewed_);
    add_product<true>(
        band,
        p.dim_padded,
        Factors<E>{0,
                   skewed + (skew_margin - (tile - 1)) * group<E>,
                   skew_step + group<E>,
                   position_query_stack_,
                   p.dim_padded,
                   sums_.position_key +
                       (view.origin() + tile - 1 + RelativeSums<T>::margin) * p.dim_padded,
                   -p.dim_padded},
        [&](std::int64_t begin, std::int64_t end) {
          const bool near = view.origin() + tile - 1 - begin < 0;
          const bool far = p.plan.window > 0 && view.origin() + tile - end >= p.plan.window;
          return near || far ? Interval{0, 0}
                             : Interval{std::max<std::int64_t>(0, tile - end),
                                        std::min(view.rows(), band - begin)};
        });
  }

  // The sums of score gradients by key give the gradient of u, those by distance the one of v.
  void sum_scores(const TileView& view, KeyTile& t) {
    const Tag<T> tag;
    const T* dscores = dscores_ + skew_margin;
    for (std::int64_t j = 0; j < tile; j += lanes<T>) {
      auto sum = hn::LoadU(tag, t.dscore + j);
      for (std::int64_t i = 0; i < view.rows(); ++i)
        sum = hn::Add(sum, hn::LoadU(tag, dscores + i * skew_step + j));
      hn::StoreU(sum, tag, t.dscore + j);
    }
    alignas(64) T by_distance[2 * tile];
    for (std::int64_t c = 0; c < 2 * tile; c += lanes<T>) {
      auto sum = hn::Zero(tag);
      const std::int64_t begin = std::max<std::int64_t>(0, tile - (c + lanes<T>));
      const std::int64_t end = std::min(view.rows(), band - c);
      for (std::int64_t i = begin; i < end; ++i)
        sum = hn::Add(sum, hn::LoadU(tag, dscores + i * skew_step + c - (tile - 1) + i));
      hn::StoreU(sum, tag, by_distance + c);
    }
    T* score = sums_.score + view.origin() + tile - 1 + RelativeSums<T>::margin;
    for (std::int64_t c = 0; c < band; ++c) score[-c] += by_distance[c];
  }

  void finish(const KeyTile& t) {
    In* dkey = gradient_.dkey.template data<In>();
    In* dvalue = gradient_.dvalue.template data<In>();
    const auto key_target = p.rows(dkey, b_, p.keys, h_, p.dim, t.at.begin);
    const auto value_target = p.rows(dvalue, b_, p.keys, h_, p.value_dim, t.at.begin);
    for (std::int64_t j = 0; j < t.at.end - t.at.begin; ++j) {
      write_row(t.dkey + j * p.dim_padded, p.dim, p.scale, key_target.row(j));
      write_row(t.dvalue + j * p.value_padded, p.value_dim, T{1}, value_target.row(j));
    }
    if (!p.call.relative) return;
    const auto keys = p.key_rows(b_, h_, t.at.begin);
    for (std::int64_t j = 0; j < t.at.end - t.at.begin; ++j)
      if (t.lanes_seen.bias[j] == 0)
        for (std::int64_t c = 0; c < p.dim; ++c)
          sums_.content_bias[c] += t.dscore[j] * static_cast<T>(keys.row(j)[c]);
  }

  const Problem<In>& p;
  const QueryBiases<In>& biases_;
  const AttentionGradient& gradient_;
  KeepFactors<In> keep_;
  Bands<In> bands_;
  KeyTile key_tiles_[block_tiles];
  std::int64_t b_ = 0;
  std::int64_t h_ = 0;
  T* dquery_ = nullptr;
  RelativeSums<T> sums_;
  Factor query_;           // [tile, dim_padded], with the content bias
  Factor position_query_;  // [tile, dim_padded], with the position bias
  Factor dout_;            // [tile, value_padded]
  Factor key_;             // [tile, dim_padded]
  const E* query_stack_ = nullptr;
  const E* position_query_stack_ = nullptr;
  const E* dout_stack_ = nullptr;
  E* value_rows_;                // [tile, value_padded]
  T* scores_;                    // [tile, tile]
  T* dprobabilities_;            // [tile, tile]
  T* dscores_;                   // [tile, skew_step], zeros in the margins
  Factor narrow_probabilities_;  // [tile, tile]
  Factor narrow_dscores_;        // [tile, skew_step]
  E* skewed_ = nullptr;          // [tile, skew_step], stacked with a shift
  T subtract_[tile];             // log-sum-exp in score units
  T delta_[tile];                // dout . out
  std::int64_t bytes_;
};

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
