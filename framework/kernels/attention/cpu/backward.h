// Backward pass of one batch row, head and range of key blocks. Keys are packed once, and query
// tiles are streamed past them. Each tile of probabilities is recomputed from the log-sum-exp.
#pragma once

#include <algorithm>

#include "framework/kernels/attention/cpu/attention_problem.h"
#include "framework/kernels/attention/cpu/dropout.h"
#include "framework/kernels/attention/cpu/relative_tables.h"
#include "framework/kernels/attention/cpu/terms.h"
#include "framework/kernels/attention/cpu/transposed_tile.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

template <typename In>
class Backward {
 public:
  using T = Accumulator<In>;
  using E = Element<In>;

  // Without a workspace block it only measures its size.
  Backward(const Problem<In>& problem,
           const QueryBiases<In>& biases,
           const AttentionGradient& g,
           ScratchArena carver)
      : p_(problem),
        biases_(biases),
        gradient_(g),
        keep_(problem),
        key_bands_(problem.key_table, carver),
        value_bands_(problem.value_table, carver),
        terms_(problem, carver) {
    take(carver, query_, p_.dim_padded);
    if (p_.call.relative) take(carver, position_query_, p_.dim_padded);
    take(carver, dout_, p_.value_padded);
    take(carver, key_, p_.dim_padded);
    value_rows_ = carver.take<E>(tile * p_.value_padded);
    scores_ = carver.take<T>(tile * tile);
    dprobabilities_ = carver.take<T>(tile * tile);
    dscores_ = carver.take<T>(tile * skew_step);
    if (p_.call.cap != 0) cap_slopes_ = carver.take<T>(tile * tile);
    if (group < E >> 1) {
      take(carver, narrow_probabilities_, tile);
      take(carver, narrow_dscores_, skew_step);
      skewed_ = carver.take<E>(tile * skew_step);
    }
    if (p_.value_table) {
      take(carver, weights_, skew_step);
      if (weights_.rows != nullptr) std::fill_n(weights_.rows, tile * skew_step, E{});
    }
    if (dscores_ != nullptr) {
      std::fill_n(dscores_, tile * skew_step, T{0});
      std::fill_n(scores_, tile * tile, T{0});
      std::fill_n(dprobabilities_, tile * tile, T{0});
    }
    for (KeyTile& t : key_tiles_) {
      t.rows = carver.take<E>(tile * p_.dim_padded);
      t.columns = carver.take<E>(p_.dim_padded * tile);
      t.value_columns = carver.take<E>(p_.value_padded * tile);
      t.dkey = carver.take<T>(tile * p_.dim_padded);
      t.dvalue = carver.take<T>(tile * p_.value_padded);
      if (p_.keys_by_distance) take(carver, t.turned, p_.dim_padded);
    }
    if (p_.keys_by_distance) allocate_transposed(carver);
    bytes_ = carver.used();
  }
  std::int64_t bytes() const { return bytes_; }

  // Accumulates into the sums, and writes dkey and dvalue of the blocks.
  void run(std::int64_t b, std::int64_t h, Interval key_blocks, const PairSums<T>& sums) {
    b_ = b;
    h_ = h;
    sums_ = sums;
    key_bands_.forget();
    value_bands_.forget();
    for (std::int64_t block = key_blocks.begin; block < key_blocks.end; ++block) {
      const Interval tiles{block * block_tiles,
                           std::min((block + 1) * block_tiles, p_.key_tiles())};
      read_keys(tiles);
      const std::int64_t last_key = p_.key_tile(tiles.end - 1).end;
      TileWalk walk(0, p_.end_query_tile(b, last_key));
      for (std::int64_t t = tiles.begin; t < tiles.end; ++t) walk.add(p_.plan(h).query_runs(t));
      while (walk.next()) {
        const Interval queries = p_.query_tile(walk.tile());
        read_queries(queries);
        for (std::int64_t t = 0; t < tiles.end - tiles.begin; ++t)
          visit(queries, key_tiles_[t], walk.kind(t));
      }
      for (std::int64_t t = 0; t < tiles.end - tiles.begin; ++t) finish(key_tiles_[t]);
    }
  }

 private:
  // A tile of rows, and its stacked form if that differs.
  struct Factor {
    E* rows = nullptr;
    E* stacked = nullptr;
    const E* stack_of(std::int64_t count, std::int64_t width) {
      if constexpr (group < E >> 1)
        if (count % 2 != 0) std::fill_n(rows + count * width, width, E{});
      return stack(rows, round_up(count, group<E>), width, width, 0, stacked);
    }
  };
  struct KeyTile {
    Interval at{0, 0};
    KeyLanes visible_lanes;
    E* rows = nullptr;           // [tile, dim_padded], stacked
    E* columns = nullptr;        // [dim_padded, tile] elements
    E* value_columns = nullptr;  // [value_padded, tile] elements
    T* dkey = nullptr;           // [tile, dim_padded]
    T* dvalue = nullptr;         // [tile, value_padded]
    Factor turned;               // [tile, dim_padded], with products of keys and the table
    const E* transposed_stack = nullptr;
    alignas(64) T dscore[tile];  // sums of score gradients by key
  };

  static void take(ScratchArena& carver, Factor& factor, std::int64_t width) {
    // Two extra vectors: a shifted row reads past its end.
    factor.rows = carver.take<E>(tile * width + 2 * lanes<T> * group<E>);
    if (group < E >> 1) factor.stacked = carver.take<E>(tile * width);
  }

  void allocate_transposed(ScratchArena& carver) {
    take(carver, transposed_dscores_, skew_step);
    if (transposed_dscores_.rows != nullptr)
      std::fill_n(transposed_dscores_.rows, tile * skew_step, E{});
    transposed_sums_ = carver.take<T>(tile * std::max(tile, p_.dim_padded));
  }

  void read_keys(Interval tiles) {
    for (std::int64_t i = tiles.begin; i < tiles.end; ++i) {
      KeyTile& t = key_tiles_[i - tiles.begin];
      t.at = p_.key_tile(i);
      t.visible_lanes.read(p_, b_, h_, t.at);
      E* rows = group<E> > 1 ? key_.rows : t.rows;
      read_key_tile(
          p_.key_rows(b_, h_, t.at.begin), t.at, p_.dim, t.visible_lanes.valid_mask, rows);
      transpose(rows, tile, p_.dim_padded, t.columns, tile);
      stack(rows, tile, p_.dim_padded, p_.dim_padded, 0, t.rows);
      if (p_.keys_by_distance) {
        reverse_rows(rows, p_.dim_padded, t.turned.rows);
        t.transposed_stack = t.turned.stack_of(tile, p_.dim_padded);
      }
      read_key_tile(p_.value_rows(b_, h_, t.at.begin),
                    t.at,
                    p_.value_dim,
                    t.visible_lanes.valid_mask,
                    value_rows_);
      transpose(value_rows_, tile, p_.value_padded, t.value_columns, tile);
      std::fill_n(t.dkey, tile * p_.dim_padded, T{0});
      std::fill_n(t.dvalue, tile * p_.value_padded, T{0});
      std::fill_n(t.dscore, tile, T{0});
    }
  }

  void read_queries(Interval queries) {
    const std::int64_t rows = queries.end - queries.begin;
    const auto from = p_.query_rows(b_, h_, queries.begin);
    read_rows<In, E>(from, rows, p_.dim, biases_.content(h_), query_.rows);
    query_stack_ = query_.stack_of(rows, p_.dim_padded);
    position_query_rows_ = query_.rows;
    position_query_stack_ = query_stack_;
    if (p_.call.relative) {
      read_rows<In, E>(from, rows, p_.dim, biases_.position(h_), position_query_.rows);
      position_query_rows_ = position_query_.rows;
      position_query_stack_ = position_query_.stack_of(rows, p_.dim_padded);
    }
    const auto dout =
        p_.rows(gradient_.dout.template data<In>(), b_, p_.time, h_, p_.value_dim, queries.begin);
    const auto out =
        p_.rows(p_.call.out.template data<In>(), b_, p_.time, h_, p_.value_dim, queries.begin);
    read_rows<In, E>({dout.data, dout.step}, rows, p_.value_dim, nullptr, dout_.rows);
    dout_stack_ = dout_.stack_of(rows, p_.value_padded);
    const T* log_sum_exp = p_.log_sum_exp(b_, h_, queries.begin);
    for (std::int64_t r = 0; r < rows; ++r) {
      const E* dout_row = dout_.rows + r * p_.value_padded;
      const In* out_row = out.row(r);
      delta_[r] = dot(dout_row, out_row, p_.value_dim);
      // A row without visible keys: +infinity here makes its probabilities 0.
      subtract_[r] = log_sum_exp[r] == minus_infinity<T> ? -minus_infinity<T>
                                                         : log_sum_exp[r] * score_units<T>;
    }
  }

  void visit(Interval queries, KeyTile& t, TileKind planned) {
    if (planned == TileKind::none || !t.visible_lanes.any_visible()) return;
    const TileView view = view_of(p_, b_, h_, queries, t.at, planned, t.visible_lanes, bits_);
    if (view.kind == TileKind::none) return;
    read_scores(view, t);
    differentiate(view, t);
    const auto columns = [&](std::int64_t begin, std::int64_t end) {
      return view.visible_columns(begin, end);
    };
    const auto rows = [&](std::int64_t begin, std::int64_t end) {
      return view.rows_seeing(begin, end);
    };
    const std::int64_t depth = view.rows();
    const E* weights = weights_stack(depth);
    const E* dscores = dscores_rows(depth);
    const E* dscores_stack =
        stack(
            dscores, round_up(depth, group<E>), skew_step, skew_step, 0, narrow_dscores_.stacked) +
        skew_margin * group<E>;
    add_product<true>(
        tile,
        p_.value_padded,
        Factors<E>{0, weights, tile, dout_stack_, p_.value_padded, t.dvalue, p_.value_padded},
        rows);
    add_product<true>(
        tile,
        p_.dim_padded,
        Factors<E>{0, dscores_stack, skew_step, query_stack_, p_.dim_padded, t.dkey, p_.dim_padded},
        rows);
    T* dquery = sums_.dquery + queries.begin * p_.dim_padded;
    add_product<false>(
        depth,
        p_.dim_padded,
        Factors<E>{
            0, dscores + skew_margin, skew_step, t.rows, p_.dim_padded, dquery, p_.dim_padded},
        columns);
    if (p_.key_table) {
      const Band<E>& distances = key_bands_.at(h_, view.origin);
      add_distance_rows(view, dscores, distances, p_.dim_padded, dquery);
      add_distance_gradients(p_.plan(h_),
                             view,
                             dscores,
                             skewed_,
                             position_query_stack_,
                             p_.key_table,
                             sums_.terms.key);
      if (p_.keys_by_distance) differentiate_key_distances(view, dscores, distances, t);
    }
    if (p_.value_table)
      add_distance_gradients(p_.plan(h_),
                             view,
                             weights_rows(depth),
                             skewed_,
                             dout_stack_,
                             p_.value_table,
                             sums_.terms.value);
    if (p_.call.relative) sum_scores(view, t);
  }

  // Computes the scores, and the gradients of the probabilities: dout . (value + the table row of
  // the relative position).
  void read_scores(const TileView& view, KeyTile& t) {
    const auto columns = [&](std::int64_t begin, std::int64_t end) {
      return view.visible_columns(begin, end);
    };
    product(view.rows(),
            Factors<E>{p_.dim_lanes(), query_.rows, p_.dim_padded, t.columns, tile, scores_, tile},
            columns);
    if (p_.key_table)
      add_distance_products(view,
                            position_query_rows_,
                            p_.dim_lanes(),
                            p_.dim_padded,
                            key_bands_.at(h_, view.origin),
                            scores_);
    if (p_.keys_by_distance)
      add_key_distance_products(view,
                                t.turned.rows,
                                p_.dim_lanes(),
                                p_.dim_padded,
                                key_bands_.at(h_, view.origin),
                                transposed_sums_,
                                scores_);
    terms_.cap(view, scores_, cap_slopes_);
    terms_.apply(b_, h_, view, t.visible_lanes, scores_);
    if (view.kind == TileKind::partial) mask_scores(view, scores_);
    product(view.rows(),
            Factors<E>{p_.value_lanes(),
                       dout_.rows,
                       p_.value_padded,
                       t.value_columns,
                       tile,
                       dprobabilities_,
                       tile},
            columns);
    if (p_.value_table)
      add_distance_products(view,
                            dout_.rows,
                            p_.value_lanes(),
                            p_.value_padded,
                            value_bands_.at(h_, view.origin),
                            dprobabilities_);
  }

  // The probabilities, stacked, and the score gradients, as rows with margins.
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

  // The probabilities with zeros in the margins.
  const E* weights_rows(std::int64_t rows) {
    const E* from = nullptr;
    if constexpr (group<E> == 1)
      from = scores_;
    else
      from = narrow_probabilities_.rows;
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(from + r * tile, tile, weights_.rows + r * skew_step + skew_margin);
    if (rows % group<E> != 0) std::fill_n(weights_.rows + rows * skew_step, skew_step, E{});
    return weights_.rows;
  }

  // Converts scores_ to the probabilities that weight the values, and dscores_ to the score
  // gradients.
  void differentiate(const TileView& view, const KeyTile& t) {
    alignas(64) T keep[tile];
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      const std::int64_t query = view.queries.begin + r;
      const T* factors = nullptr;
      if (keep_.active()) {
        keep_.read(b_, h_, query, t.at.begin, keep);
        factors = keep;
      }
      if (p_.call.span) {
        const SpanRow<T> span(p_, b_, h_, query, static_cast<T>(view.origin + r));
        span.hide_beyond(scores_ + r * tile);
        sums_.dspan[query] += differentiate_row(r, factors, span);
      } else {
        differentiate_row(r, factors, 1);
      }
    }
    T* const dscores = dscores_ + skew_margin;
    terms_.forget_self(b_, h_, view, t.visible_lanes, dscores, skew_step);
    // Biases are added after the cap, so this precedes the multiplication by the cap's slopes.
    if (sums_.terms.bias != nullptr) terms_.differentiate_bias(view, dscores, sums_.terms.bias);
    if (p_.given.any())
      terms_.differentiate_external(b_, h_, view, dscores, skew_step, sums_.drow, sums_.dfactors);
    if (cap_slopes_ == nullptr) return;
    for (std::int64_t r = 0; r < view.rows(); ++r) multiply_by_slopes(r);
  }

  void multiply_by_slopes(std::int64_t r) {
    T* dscore = dscores_ + r * skew_step + skew_margin;
    const T* slope = cap_slopes_ + r * tile;
    // The slope of a masked pair is arbitrary.
#pragma omp simd
    for (std::int64_t j = 0; j < tile; ++j)
      dscore[j] = dscore[j] == 0 ? T{0} : dscore[j] * slope[j];
  }

  // `span` is 1, or the soft span of the row. Returns the gradient of its z, times the ramp.
  template <typename Span>
  T differentiate_row(std::int64_t r, const T* keep, [[maybe_unused]] const Span& span) {
    const Tag<T> tag;
    const auto factor = hn::Set(tag, p_.scale * score_units<T>);
    const auto subtract = hn::Set(tag, subtract_[r]);
    const auto delta = hn::Set(tag, delta_[r]);
    T* score = scores_ + r * tile;
    const T* dprobability = dprobabilities_ + r * tile;
    T* dscore = dscores_ + r * skew_step + skew_margin;
    auto dspan = hn::Zero(tag);
    for (std::int64_t j = 0; j < tile; j += lanes<T>) {
      const auto power = fast_exp(hn::MulSub(hn::LoadU(tag, score + j), factor, subtract));
      auto dpower = hn::LoadU(tag, dprobability + j);
      auto kept = power;
      if (keep != nullptr) {
        const auto weight = hn::LoadU(tag, keep + j);
        kept = hn::Mul(power, weight);
        dpower = hn::Mul(dpower, weight);
      }
      // dpower of a masked pair is arbitrary: it is not computed there.
      const auto seen = hn::Ne(power, hn::Zero(tag));
      auto change = hn::Sub(dpower, delta);
      if constexpr (!std::is_same_v<Span, int>) {
        const auto soft = span.factors(j);
        const auto counts = hn::And(seen, span.are_on_ramp(j));
        dspan = hn::Add(dspan, hn::IfThenElseZero(counts, hn::Mul(power, change)));
        kept = hn::Mul(kept, soft);
        const auto floor = hn::Set(tag, span.floor);
        change = hn::NegMulAdd(floor, delta, hn::Mul(soft, change));
      }
      hn::StoreU(kept, tag, score + j);
      hn::StoreU(hn::IfThenElseZero(seen, hn::Mul(power, change)), tag, dscore + j);
    }
    if constexpr (std::is_same_v<Span, int>) return 0;
    return hn::GetLane(hn::SumOfLanes(tag, dspan));
  }

  // Gradients of the products of keys with the table, for both factors.
  void differentiate_key_distances(const TileView& view,
                                   const E* dscores,
                                   const Band<E>& distances,
                                   KeyTile& t) {
    const TileView turned = reflected_view(view);
    reflect_factors(view, dscores, transposed_dscores_.rows);
    std::fill_n(transposed_sums_, tile * p_.dim_padded, T{0});
    add_distance_rows(turned, transposed_dscores_.rows, distances, p_.dim_padded, transposed_sums_);
    for (std::int64_t j = 0; j < tile; ++j)
      for (std::int64_t c = 0; c < p_.dim_padded; ++c)
        t.dkey[j * p_.dim_padded + c] += transposed_sums_[(tile - 1 - j) * p_.dim_padded + c];
    add_distance_gradients(p_.plan(h_),
                           turned,
                           transposed_dscores_.rows,
                           skewed_,
                           t.transposed_stack,
                           p_.key_table,
                           sums_.terms.key);
  }

  // Sums of score gradients by key give the gradient of u, sums by relative position that of v.
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
    sum_band_columns(view.rows(), dscores, by_distance);
    T* score = sums_.terms.score + view.origin + tile - 1 + distance_margin;
    for (std::int64_t c = 0; c < band; ++c) score[-c] += by_distance[c];
  }

  void finish(const KeyTile& t) {
    write(t, gradient_.dkey, p_.dim, t.dkey, p_.dim_padded, p_.scale);
    write(t, gradient_.dvalue, p_.value_dim, t.dvalue, p_.value_padded, T{1});
    if (!p_.call.relative) return;
    const auto keys = p_.key_rows(b_, h_, t.at.begin);
    for (std::int64_t j = 0; j < t.at.end - t.at.begin; ++j)
      if ((t.visible_lanes.valid_mask >> j & 1) != 0)
        for (std::int64_t c = 0; c < p_.dim; ++c)
          sums_.terms.content_bias[c] += t.dscore[j] * static_cast<T>(keys.row(j)[c]);
  }

  void write(const KeyTile& t,
             const Tensor& gradient,
             std::int64_t width,
             const T* from,
             std::int64_t step,
             T factor) const {
    const bool add = gradient_.add && !p_.shares_keys();
    with_gradient<In>(gradient, [&](auto* data) {
      const auto target = p_.rows(data, b_, p_.keys, h_, width, t.at.begin);
      for (std::int64_t j = 0; j < t.at.end - t.at.begin; ++j)
        write_row(from + j * step, width, factor, target.row(j), add);
    });
  }

  const Problem<In>& p_;
  const QueryBiases<In>& biases_;
  const AttentionGradient& gradient_;
  DropoutMask<In> keep_;
  RelativeBands<In> key_bands_;
  RelativeBands<In> value_bands_;
  ScoreTerms<In> terms_;
  KeyTile key_tiles_[block_tiles];
  std::int64_t b_ = 0;
  std::int64_t h_ = 0;
  PairSums<T> sums_;
  std::uint64_t bits_[tile];  // of a partial tile
  Factor query_;              // [tile, dim_padded], with the content bias
  Factor position_query_;     // [tile, dim_padded], with the position bias
  Factor dout_;               // [tile, value_padded]
  Factor key_;                // [tile, dim_padded]
  const E* query_stack_ = nullptr;
  const E* position_query_rows_ = nullptr;
  const E* position_query_stack_ = nullptr;
  const E* dout_stack_ = nullptr;
  E* value_rows_;                 // [tile, value_padded]
  T* scores_;                     // [tile, tile]
  T* dprobabilities_;             // [tile, tile]
  T* dscores_;                    // [tile, skew_step], zeros in the margins
  T* cap_slopes_ = nullptr;       // [tile, tile], with a cap
  Factor narrow_probabilities_;   // [tile, tile]
  Factor narrow_dscores_;         // [tile, skew_step]
  E* skewed_ = nullptr;           // [tile, skew_step], stacked with a shift
  Factor weights_;                // [tile, skew_step]: the probabilities, zeros in the margins
  Factor transposed_dscores_;     // [tile, skew_step], the transposed score gradients
  T* transposed_sums_ = nullptr;  // [tile, tile or dim_padded]
  T subtract_[tile];              // log-sum-exp in score units
  T delta_[tile];                 // dout . out
  std::int64_t bytes_;
};

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
