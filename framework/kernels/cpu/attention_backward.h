// The backward pass of one batch row, head and range of key blocks. Keys are packed once, query
// tiles stream past them: each tile of probabilities is rebuilt from the log-sum-exp.
#pragma once

#include <algorithm>

#include "framework/kernels/cpu/attention_dropout.h"
#include "framework/kernels/cpu/attention_problem.h"
#include "framework/kernels/cpu/attention_relative.h"

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

  // With no block of workspace it only measures what it needs.
  Backward(const Problem<In>& problem,
           const QueryBiases<In>& biases,
           const AttentionGradient& g,
           Carver carver)
      : p(problem), biases_(biases), gradient_(g), keep_(problem), bands_(problem, carver) {
    query_ = carver.take<T>(tile * p.dim_padded);
    if (p.call.relative) position_query_ = carver.take<T>(tile * p.dim_padded);
    dout_ = carver.take<T>(tile * p.value_padded);
    value_rows_ = carver.take<T>(tile * p.value_padded);
    scores_ = carver.take<T>(tile * tile);
    dprobabilities_ = carver.take<T>(tile * tile);
    dscores_ = carver.take<T>(tile * skew_step<T>);
    if (dscores_ != nullptr) {
      std::fill_n(dscores_, tile * skew_step<T>, T{0});
      std::fill_n(scores_, tile * tile, T{0});
      std::fill_n(dprobabilities_, tile * tile, T{0});
    }
    for (KeyTile& t : key_tiles_) {
      t.rows = carver.take<T>(tile * p.dim_padded);
      t.columns = carver.take<T>(p.dim_padded * tile);
      t.value_columns = carver.take<T>(p.value_padded * tile);
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
    T* rows = nullptr;           // [tile, dim_padded]
    T* columns = nullptr;        // [dim_padded, tile]
    T* value_columns = nullptr;  // [value_padded, tile]
    T* dkey = nullptr;           // [tile, dim_padded]
    T* dvalue = nullptr;         // [tile, value_padded]
    alignas(64) T dscore[tile];  // sums of score gradients by key
  };

  void read_keys(Interval tiles) {
    for (std::int64_t i = tiles.begin; i < tiles.end; ++i) {
      KeyTile& t = key_tiles_[i - tiles.begin];
      t.at = p.plan.key_tile(i);
      t.lanes_seen.read(p, b_, t.at);
      read_key_tile(p.key_rows(b_, h_, t.at.begin), t.at, p.dim, t.lanes_seen, t.rows);
      transpose(t.rows, p.dim_padded, tile, p.dim_padded, t.columns, tile);
      read_key_tile(p.value_rows(b_, h_, t.at.begin), t.at, p.value_dim, t.lanes_seen, value_rows_);
      transpose(value_rows_, p.value_padded, tile, p.value_padded, t.value_columns, tile);
      std::fill_n(t.dkey, tile * p.dim_padded, T{0});
      std::fill_n(t.dvalue, tile * p.value_padded, T{0});
      std::fill_n(t.dscore, tile, T{0});
    }
  }

  void read_queries(Interval queries) {
    const std::int64_t rows = queries.end - queries.begin;
    const auto from = p.query_rows(b_, h_, queries.begin);
    read_rows<In, T>(from, rows, p.dim, biases_.content(h_), query_);
    if (p.call.relative) read_rows<In, T>(from, rows, p.dim, biases_.position(h_), position_query_);
    const auto dout =
        p.rows(gradient_.dout.template data<In>(), b_, p.time, h_, p.value_dim, queries.begin);
    const auto out =
        p.rows(p.call.out.template data<In>(), b_, p.time, h_, p.value_dim, queries.begin);
    read_rows<In, T>({dout.data, dout.step}, rows, p.value_dim, nullptr, dout_);
    const T* log_sum_exp = p.log_sum_exp(b_, h_, queries.begin);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* dout_row = dout_ + r * p.value_padded;
      const In* out_row = out.row(r);
      T delta = 0;
#pragma omp simd reduction(+ : delta)
      for (std::int64_t c = 0; c < p.value_dim; ++c)
        delta += dout_row[c] * static_cast<T>(out_row[c]);
      delta_[r] = delta;
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
            Factors<T>{p.dim_padded, query_, p.dim_padded, t.columns, tile, scores_, tile},
            columns);
    if (p.call.relative)
      add_relative_scores(
          view, p.dim_padded, position_query_, bands_.at(h_, view.origin()), scores_);
    if (view.kind == TileKind::partial || !t.lanes_seen.all_seen)
      mask_scores(view, t.lanes_seen.bias, scores_);
    product(
        view.rows(),
        Factors<T>{
            p.value_padded, dout_, p.value_padded, t.value_columns, tile, dprobabilities_, tile},
        columns);
    differentiate(queries, t);
    const T* dscores = dscores_ + skew_margin<T>;
    add_product<true>(
        tile,
        p.value_padded,
        Factors<T>{view.rows(), scores_, tile, dout_, p.value_padded, t.dvalue, p.value_padded},
        rows);
    add_product<true>(
        tile,
        p.dim_padded,
        Factors<T>{view.rows(), dscores, skew_step<T>, query_, p.dim_padded, t.dkey, p.dim_padded},
        rows);
    add_product<false>(view.rows(),
                       p.dim_padded,
                       Factors<T>{tile,
                                  dscores,
                                  skew_step<T>,
                                  t.rows,
                                  p.dim_padded,
                                  dquery_ + queries.begin * p.dim_padded,
                                  p.dim_padded},
                       columns);
    if (p.call.relative) visit_relative(view, t);
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
      T* dscore = dscores_ + r * skew_step<T> + skew_margin<T>;
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

  void visit_relative(const TileView& view, KeyTile& t) {
    const Band<T>& distances = bands_.at(h_, view.origin());
    const T* dscores = dscores_ + skew_margin<T>;
    T* dquery = dquery_ + view.queries.begin * p.dim_padded;
    for (std::int64_t i = 0; i < view.rows(); i += block_rows) {
      const std::int64_t count = std::min<std::int64_t>(block_rows, view.rows() - i);
      const Interval seen = view.columns_seen(i, i + count);
      const std::int64_t first = tile - 1 - i - (count - 1);
      add_product<false>(count,
                         p.dim_padded,
                         Factors<T>{0,
                                    dscores + i * skew_step<T> - (count - 1),
                                    skew_step<T> + 1,
                                    distances.rows + first * p.dim_padded,
                                    p.dim_padded,
                                    dquery + i * p.dim_padded,
                                    p.dim_padded},
                         [&](std::int64_t, std::int64_t) {
                           return Interval{seen.begin, seen.end + count - 1};
                         });
    }
    // Column c of the band: element (i, c - 63 + i) of row i, where that lies in the tile.
    add_product<true>(
        band,
        p.dim_padded,
        Factors<T>{0,
                   dscores - (tile - 1),
                   skew_step<T> + 1,
                   position_query_,
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
    sum_scores(view, t);
  }

  // The sums of score gradients by key give the gradient of u, those by distance the one of v.
  void sum_scores(const TileView& view, KeyTile& t) {
    T by_distance[2 * tile] = {};
    for (std::int64_t i = 0; i < view.rows(); ++i) {
      const T* row = dscores_ + i * skew_step<T> + skew_margin<T>;
      T* shifted = by_distance + tile - 1 - i;
#pragma omp simd
      for (std::int64_t j = 0; j < tile; ++j) t.dscore[j] += row[j];
#pragma omp simd
      for (std::int64_t j = 0; j < tile; ++j) shifted[j] += row[j];
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
    if (p.call.relative)
      add_product<false>(
          1,
          p.dim_padded,
          Factors<T>{tile, t.dscore, tile, t.rows, p.dim_padded, sums_.content_bias, p.dim_padded},
          [](std::int64_t, std::int64_t) {
            return Interval{0, tile};
          });
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
  T* query_;                     // [tile, dim_padded], with the content bias
  T* position_query_ = nullptr;  // [tile, dim_padded], with the position bias
  T* dout_;                      // [tile, value_padded]
  T* value_rows_;                // [tile, value_padded]
  T* scores_;                    // [tile, tile]
  T* dprobabilities_;            // [tile, tile]
  T* dscores_;                   // [tile, skew_step], zeros in the margins
  T subtract_[tile];             // log-sum-exp in score units
  T delta_[tile];                // dout . out
  std::int64_t bytes_;
};

}  // namespace longspan::tile_attention
