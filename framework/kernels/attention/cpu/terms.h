// Score terms without products: external scores, ALiBi, learned biases by relative position, hash
// rules, and the soft span.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "framework/kernels/attention/cpu/attention_problem.h"
#include "framework/kernels/attention/cpu/keys.h"
#include "framework/kernels/attention/cpu/relative_tables.h"
#include "framework/kernels/attention/cpu/tile_view.h"
#include "framework/kernels/attention/shared/pair_math.h"

HWY_BEFORE_NAMESPACE();

namespace longspan::tile_attention {

// External scores in a tile: adds them to the products, and computes their gradients.

template <typename In>
class ExternalScoreTiles {
 public:
  using T = Accumulator<In>;

  explicit ExternalScoreTiles(const Problem<In>& p) : p_(p) {
    const ExternalScores& given = p.given;
    if (given.row.defined()) row_ = All(given.row);
    if (!given.low.defined()) return;
    low_ = All(given.low);
    high_ = All(given.high);
  }

  // scores: [rows, tile], before scaling; entries of masked pairs are arbitrary.
  void add(std::int64_t b, std::int64_t h, const TileView& view, T* scores) const {
    const T unscaled = 1 / p_.scale;
    const std::int64_t position = p_.call.mask.key_begin + view.keys.begin;
    const std::int64_t count = view.keys.end - view.keys.begin;
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      T* to = scores + r * tile;
      const std::int64_t i = view.queries.begin + r;
      if (row_.data != nullptr) add_times(unscaled, at(row_, 0, i, h) + position, count, to);
      if (low_.data == nullptr) continue;
      const In* low = at(low_, b, i, h);
      const In* high = at(high_, b, i, h);
      for_parts(
          position, count, [&](std::int64_t j, std::int64_t n, std::int64_t p, std::int64_t q) {
            add_times(unscaled * static_cast<T>(high[q]), low + p, n, to + j);
          });
    }
  }

  // dscores: rows with stride `step`. drow: the gradient of the rows, over all batch rows.
  // dfactors: [time, a + c] of this batch row and head, low before high.
  void differentiate(std::int64_t b,
                     std::int64_t h,
                     const TileView& view,
                     const T* dscores,
                     std::int64_t step,
                     T* drow,
                     T* dfactors) const {
    const std::int64_t position = p_.call.mask.key_begin + view.keys.begin;
    const std::int64_t count = view.keys.end - view.keys.begin;
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      const T* from = dscores + r * step;
      const std::int64_t i = view.queries.begin + r;
      if (drow != nullptr)
        add_times(T{1}, from, count, drow + (i * p_.heads + h) * row_.width + position);
      if (dfactors == nullptr) continue;
      const In* low = at(low_, b, i, h);
      const In* high = at(high_, b, i, h);
      T* dlow = dfactors + i * (low_.width + high_.width);
      T* dhigh = dlow + low_.width;
      for_parts(
          position, count, [&](std::int64_t j, std::int64_t n, std::int64_t p, std::int64_t q) {
            add_times(static_cast<T>(high[q]), from + j, n, dlow + p);
            dhigh[q] += dot(from + j, low + p, n);
          });
    }
  }

 private:
  // [batch, time, heads, width].
  struct All {
    const In* data = nullptr;
    std::int64_t width = 0;

    All() = default;
    explicit All(const Tensor& tensor) : data(tensor.data<In>()), width(tensor.shape()[3]) {}
  };
  const In* at(const All& all, std::int64_t b, std::int64_t i, std::int64_t h) const {
    return all.data + ((b * p_.time + i) * p_.heads + h) * all.width;
  }

  template <typename From>
  static void add_times(T factor, const From* from, std::int64_t count, T* to) {
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) to[j] += factor * static_cast<T>(from[j]);
  }

  // Splits `count` keys into runs with one index of high: f(first key, keys, first index of low,
  // index of high).
  template <typename F>
  void for_parts(std::int64_t position, std::int64_t count, const F& f) const {
    std::int64_t p = position % low_.width, q = position / low_.width;
    for (std::int64_t j = 0; j < count; ++q) {
      const std::int64_t n = std::min(low_.width - p, count - j);
      f(j, n, p, q);
      j += n;
      p = 0;
    }
  }

  const Problem<In>& p_;
  All row_;
  All low_;
  All high_;
};

// Learned biases by relative position in a tile: adds them to scores, and computes their gradients.

template <typename In>
class DistanceBiasTiles {
 public:
  using T = Accumulator<In>;

  explicit DistanceBiasTiles(const Problem<In>& p) {
    const Tensor& bias = p.call.distance_bias;
    if (!bias.defined()) return;
    all_ = bias.data<T>();
    distances_ = bias.shape()[1];
    unscaled_ = 1 / p.scale;
  }
  bool any() const { return all_ != nullptr; }

  // scores: [rows, tile], before scaling; entries of masked pairs are arbitrary.
  void add(std::int64_t h, const TileView& view, T* scores) const {
    T line[band];
    for (std::int64_t c = 0; c < band; ++c)
      line[c] = unscaled_ * all_[h * distances_ + place(view, c)];
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      T* row = scores + r * tile;
      const T* of_row = line + tile - 1 - r;
#pragma omp simd
      for (std::int64_t j = 0; j < tile; ++j) row[j] += of_row[j];
    }
  }

  // to: [distances], of one head. dscores: [rows, skew_step], starting after the margin.
  void differentiate(const TileView& view, const T* dscores, T* to) const {
    alignas(64) T sums[2 * tile];
    sum_band_columns(view.rows(), dscores, sums);
    for (std::int64_t c = 0; c < band; ++c) to[place(view, c)] += sums[c];
  }

 private:
  // Index of the relative position of column c of the band, clipped to the table.
  std::int64_t place(const TileView& view, std::int64_t c) const {
    const std::int64_t after = c - (tile - 1) - view.origin;  // the key after the query
    return std::clamp(after + distances_ / 2, std::int64_t{0}, distances_ - 1);
  }

  const T* all_ = nullptr;  // [heads, distances]
  std::int64_t distances_ = 0;
  T unscaled_ = 1;
};

}  // namespace longspan::tile_attention

HWY_AFTER_NAMESPACE();

HWY_BEFORE_NAMESPACE();

namespace longspan::tile_attention {

// Adds to the scores of a tile (before scaling), or replaces them.
template <typename In>
class ScoreTerms {
 public:
  using T = Accumulator<In>;

  ScoreTerms(const Problem<In>& p, ScratchArena& carver) : p_(p), given_(p), bias_(p) {
    if (p.call.slopes.defined()) slopes_ = p.call.slopes.template data<T>();
    if (!p.call.hash) return;
    const LshTerm& hash = *p.call.hash;
    if (hash.self_score) self_ = static_cast<T>(*hash.self_score / static_cast<double>(p.scale));
    if (!hash.chunk.defined()) return;
    rounds_ = hash.chunk.shape()[2];
    positions_ = hash.chunk.shape()[3];
    key_chunks_ = carver.take<std::int32_t>(rounds_ * tile);
    if (hash.bucket.defined()) key_buckets_ = carver.take<std::int32_t>(rounds_ * tile);
    for (std::int64_t n = 0; n <= rounds_; ++n) {
      const double count = static_cast<double>(n) + hash.count_floor;
      logarithms_.push_back(
          static_cast<T>((count == 0 ? 0 : std::log(count)) / static_cast<double>(p.scale)));
    }
  }

  // Caps products [rows, tile], before scaling, if the call has a cap. slopes: [rows, tile],
  // receives the factors of their gradients, or null.
  void cap(const TileView& view, T* scores, T* slopes) const {
    if (p_.call.cap == 0) return;
    const Tag<T> tag;
    const auto cap = static_cast<T>(p_.call.cap);
    const auto into = hn::Set(tag, p_.scale / cap), back = hn::Set(tag, cap / p_.scale);
    for (std::int64_t e = 0; e < view.rows() * tile; e += lanes<T>) {
      const auto part = hn::Tanh(tag, hn::Mul(hn::LoadU(tag, scores + e), into));
      hn::StoreU(hn::Mul(part, back), tag, scores + e);
      if (slopes != nullptr)
        hn::StoreU(hn::NegMulAdd(part, part, hn::Set(tag, T{1})), tag, slopes + e);
    }
  }
  // scores: [rows, tile]; entries of masked pairs are arbitrary.
  void apply(
      std::int64_t b, std::int64_t h, const TileView& view, const KeyLanes& keys, T* scores) {
    if (p_.given.any()) given_.add(b, h, view, scores);
    if (slopes_ != nullptr) add_slope(slopes_[h], view, scores);
    if (bias_.any()) bias_.add(h, view, scores);
    if (p_.call.hash && p_.call.hash->self_score)
      for_self(
          b, h, view, keys, [&](std::int64_t r, std::int64_t j) { scores[r * tile + j] = self_; });
    // Includes a token's pair with itself, which shares every round.
    if (rounds_ > 0) divide_by_counts(b, h, view, keys, scores);
  }
  // Clears the gradient of self pairs, whose score does not depend on the query or the key.
  void forget_self(std::int64_t b,
                   std::int64_t h,
                   const TileView& view,
                   const KeyLanes& keys,
                   T* dscores,
                   std::int64_t step) const {
    if (p_.call.hash && p_.call.hash->self_score)
      for_self(
          b, h, view, keys, [&](std::int64_t r, std::int64_t j) { dscores[r * step + j] = 0; });
  }
  // Adds score gradients to the bias gradients of a head (DistanceBiasTiles).
  void differentiate_bias(const TileView& view, const T* dscores, T* to) const {
    bias_.differentiate(view, dscores, to);
  }
  // Adds score gradients, rows with stride `step`, to the gradients of given scores.
  void differentiate_external(std::int64_t b,
                              std::int64_t h,
                              const TileView& view,
                              const T* dscores,
                              std::int64_t step,
                              T* drow,
                              T* dfactors) const {
    given_.differentiate(b, h, view, dscores, step, drow, dfactors);
  }

 private:
  void add_slope(T slope, const TileView& view, T* scores) const {
    const T factor = slope / p_.scale;
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      T* row = scores + r * tile;
      const auto distance = static_cast<T>(view.origin + r);
#pragma omp simd
      for (std::int64_t j = 0; j < tile; ++j)
        row[j] -= factor * std::abs(distance - static_cast<T>(static_cast<std::int32_t>(j)));
    }
  }

  template <typename F>
  void for_self(std::int64_t b,
                std::int64_t h,
                const TileView& view,
                const KeyLanes& keys,
                const F& f) const {
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      std::uint64_t same =
          view.row(r) & lanes_equal(keys.position, p_.query_position(b, h, view.queries.begin + r));
      for (; same != 0; same &= same - 1) f(r, std::countr_zero(same));
    }
  }

  // [rounds, positions] of an i32 tensor [batch, heads, rounds, positions]; null without one.
  const std::int32_t* rounds_of(const Tensor& tensor, std::int64_t b, std::int64_t h) const {
    if (!tensor.defined()) return nullptr;
    return tensor.data<std::int32_t>() + (b * p_.heads + h) * rounds_ * positions_;
  }
  // Gathers the value of each key of the tile in each round: [rounds, tile].
  void gather(const std::int32_t* rounds, const KeyLanes& keys, std::int32_t* to) const {
    for (std::int64_t round = 0; round < rounds_; ++round)
      for (std::int64_t j = 0; j < tile; ++j)
        to[round * tile + j] =
            (keys.valid_mask >> j & 1) != 0 ? rounds[round * positions_ + keys.position[j]] : 0;
  }

  void divide_by_counts(
      std::int64_t b, std::int64_t h, const TileView& view, const KeyLanes& keys, T* scores) {
    const LshTerm& hash = *p_.call.hash;
    const std::int32_t* const chunk_of = rounds_of(hash.chunk, b, h);
    const std::int32_t* const bucket_of = rounds_of(hash.bucket, b, h);
    gather(chunk_of, keys, key_chunks_);
    if (bucket_of != nullptr) gather(bucket_of, keys, key_buckets_);
    const RoundRule rule(hash);
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      const std::int32_t position = p_.query_position(b, h, view.queries.begin + r);
      if (position < 0) continue;
      alignas(64) std::int32_t counts[tile] = {};
      for (std::int64_t round = 0; round < rounds_; ++round) {
        const std::int32_t of_query = chunk_of[round * positions_ + position];
        const std::int32_t* chunk = key_chunks_ + round * tile;
        // Without buckets, every key counts as being in the query's bucket.
        const bool any = bucket_of == nullptr;
        const std::int32_t* bucket = any ? chunk : key_buckets_ + round * tile;
        const std::int32_t mine = any ? 0 : bucket_of[round * positions_ + position];
#pragma omp simd
        for (std::int64_t j = 0; j < tile; ++j)
          counts[j] += rule.met(of_query, chunk[j]) & (any | (bucket[j] == mine));
      }
      T* row = scores + r * tile;
      for (std::int64_t j = 0; j < tile; ++j)
        row[j] -= logarithms_[static_cast<std::size_t>(counts[j])];
    }
  }

  const Problem<In>& p_;
  ExternalScoreTiles<In> given_;
  DistanceBiasTiles<In> bias_;
  const T* slopes_ = nullptr;
  T self_ = 0;
  std::int64_t rounds_ = 0;
  std::int64_t positions_ = 0;
  std::int32_t* key_chunks_ = nullptr;   // [rounds, tile]
  std::int32_t* key_buckets_ = nullptr;  // [rounds, tile]
  std::vector<T> logarithms_;            // of the number of rounds, before scaling
};

// The soft span of a row of a tile: column j is j further inside it than the first.
template <typename T>
struct SpanRow {
  T inside = 1;  // of the first column
  T ramp = 1;
  T step = 0;
  T floor = 0;

  template <typename In>
  SpanRow(const Problem<In>& p, std::int64_t b, std::int64_t h, std::int64_t query, T distance) {
    const SpanTerm& span = *p.call.span;
    const bool by_token = span.span.shape().dimensions() == 3;
    const T z = span.span.template data<T>()[by_token ? (b * p.time + query) * p.heads + h : h];
    const SoftSpan<T> soft(span);
    inside = soft.end(z) - distance;
    ramp = soft.ramp;
    step = soft.step;
    floor = soft.floor;
  }
  // Without a floor, keys beyond the span are masked. If such a score were the row's maximum, the
  // other weights could underflow, and its own could overflow.
  void hide_beyond(T* score) const {
    if (floor > 0) return;
    const Tag<T> tag;
    for (std::int64_t j = 0; j < tile; j += lanes<T>) {
      const auto seen = hn::Gt(factors(j), hn::Zero(tag));
      hn::StoreU(hn::IfThenElse(seen, hn::LoadU(tag, score + j), hn::Set(tag, minus_infinity<T>)),
                 tag,
                 score + j);
    }
  }
  Vector<T> insides(std::int64_t j) const {
    const Tag<T> tag;
    return hn::Add(hn::Iota(tag, static_cast<T>(j)), hn::Set(tag, inside));
  }
  Vector<T> factors(std::int64_t j) const {
    const Tag<T> tag;
    const auto factor = hn::Mul(insides(j), hn::Set(tag, step));
    return hn::Min(hn::Max(factor, hn::Zero(tag)), hn::Set(tag, T{1}));
  }
  // Whether factors depend on z, as in SoftSpan.
  auto are_on_ramp(std::int64_t j) const {
    const Tag<T> tag;
    const auto by = insides(j);
    return hn::And(hn::Ge(by, hn::Zero(tag)), hn::Le(by, hn::Set(tag, ramp)));
  }
};

}  // namespace longspan::tile_attention

HWY_AFTER_NAMESPACE();
