// Given scores in a tile: adds them to the products, and computes their gradients.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/attention/cpu/attention_problem.h"
#include "framework/kernels/attention/cpu/tile_view.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

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

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
