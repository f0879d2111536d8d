// Extents, pointers, plans and scale factors of one attention call, as the CPU tiles use them.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "framework/kernels/attention/check.h"
#include "framework/kernels/attention/cpu/tile_rows.h"
#include "framework/kernels/attention/external_scores.h"
#include "framework/kernels/attention/shared/distance_table.h"
#include "framework/kernels/cpu/loops.h"

namespace longspan::tile_attention {

// Query tiles that share a packed key tile in the forward pass; key tiles that share a read query
// tile in the backward pass.
inline constexpr std::int64_t block_tiles = 4;

template <typename In>
struct Problem {
  using T = Accumulator<In>;
  using E = Element<In>;

  Problem(const Attention& a, const ExternalScores& external_scores)
      : call(a),
        given(external_scores),
        plans(plans_of(a)),
        batch(a.query.shape()[0]),
        time(a.query.shape()[1]),
        keys(a.key.shape()[1]),
        heads(a.query.shape()[2]),
        key_heads(a.key.shape()[2]),
        dim(a.query.shape()[3]),
        value_dim(a.value.shape()[3]),
        dim_padded(padded<E>(dim)),
        value_padded(padded<E>(value_dim)),
        query(a.query.data<In>()),
        key(a.key.data<In>()),
        value(a.value.data<In>()),
        scale(static_cast<T>(a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(dim)))) {
    if (a.mask.key_padding.defined()) padding = a.mask.key_padding.data<std::uint8_t>();
    if (a.mask.key_length.defined()) length = a.mask.key_length.data<std::int64_t>();
    if (a.mask.max_lookback.defined()) max_lookback = a.mask.max_lookback.data<std::int64_t>();
    if (a.relative) key_table = DistanceTable<const In>::by_head(a.relative->position_key);
    if (a.shaw && a.shaw->key_table.defined())
      key_table = DistanceTable<const In>::shared(a.shaw->key_table);
    keys_by_distance = a.shaw && a.shaw->of_keys;
    if (a.shaw && a.shaw->value_table.defined())
      value_table = DistanceTable<const In>::shared(a.shaw->value_table);
  }

  const TilePlan& plan(std::int64_t h) const { return *plans[static_cast<std::size_t>(h)]; }
  Interval query_tile(std::int64_t index) const {
    return {index * tile, std::min((index + 1) * tile, time)};
  }
  Interval key_tile(std::int64_t index) const {
    return {index * tile, std::min((index + 1) * tile, keys)};
  }
  // The earliest key in the query's lookback, as an index of the call's keys; may be negative.
  std::int64_t first_key(std::int64_t b, std::int64_t i) const {
    return call.mask.query_begin + i - max_lookback[b * time + i] - call.mask.key_begin;
  }
  // The first key tile visible to this query or any later one.
  std::int64_t first_key_tile(std::int64_t b, std::int64_t i) const {
    return max_lookback == nullptr ? 0 : std::max<std::int64_t>(0, first_key(b, i)) / tile;
  }
  // The end of the query tiles that can see a key before `end`.
  std::int64_t end_query_tile(std::int64_t b, std::int64_t end) const {
    if (max_lookback == nullptr) return query_tiles();
    std::int64_t first = 0, last = query_tiles();
    while (first < last) {
      const std::int64_t middle = (first + last) / 2;
      if (first_key(b, middle * tile) < end)
        first = middle + 1;
      else
        last = middle;
    }
    return first;
  }
  std::int64_t query_tiles() const { return (time + tile - 1) / tile; }
  std::int64_t key_tiles() const { return (keys + tile - 1) / tile; }

  // Row i of a [batch, rows, heads, width] tensor, for one batch row and query head.
  template <typename Element>
  Rows<Element> rows(Element* data,
                     std::int64_t b,
                     std::int64_t rows,
                     std::int64_t h,
                     std::int64_t width,
                     std::int64_t first) const {
    return {data + ((b * rows + first) * heads + h) * width, heads * width};
  }
  Rows<const In> query_rows(std::int64_t b, std::int64_t h, std::int64_t first) const {
    return rows(query, b, time, h, dim, first);
  }
  Rows<const In> key_rows(std::int64_t b, std::int64_t h, std::int64_t first) const {
    return rows_of_key_head(key, b, h, dim, first);
  }
  Rows<const In> value_rows(std::int64_t b, std::int64_t h, std::int64_t first) const {
    return rows_of_key_head(value, b, h, value_dim, first);
  }
  // Whether query heads share keys; key gradients are then accumulated for each query head.
  bool shares_keys() const { return key_heads != heads; }
  T* log_sum_exp(std::int64_t b, std::int64_t h, std::int64_t first) const {
    return call.log_sum_exp.template data<T>() + (b * heads + h) * time + first;
  }
  // Element (b, h, i) of an i32 tensor [batch, heads, rows].
  static const std::int32_t* integers(const Tensor& tensor,
                                      std::int64_t b,
                                      std::int64_t h,
                                      std::int64_t i) {
    const Shape& s = tensor.shape();
    return tensor.data<std::int32_t>() + (b * s[1] + h) * s[2] + i;
  }
  // The original position of a query; a sorted sequence stores it.
  std::int32_t query_position(std::int64_t b, std::int64_t h, std::int64_t i) const {
    if (call.mask.sorted) return *integers(call.mask.sorted->query_position, b, h, i);
    return static_cast<std::int32_t>(call.mask.query_begin + i);
  }
  bool needs_positions() const { return call.mask.sorted || call.hash; }

  const Attention& call;
  const ExternalScores& given;
  std::vector<std::shared_ptr<const TilePlan>> plans;
  std::int64_t batch;
  std::int64_t time;
  std::int64_t keys;
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t dim;
  std::int64_t value_dim;
  std::int64_t dim_padded;
  std::int64_t value_padded;
  const In* query;
  const In* key;
  const In* value;
  const std::uint8_t* padding = nullptr;
  const std::int64_t* length = nullptr;
  const std::int64_t* max_lookback = nullptr;  // [batch, time]
  DistanceTable<const In> key_table;
  DistanceTable<const In> value_table;
  bool keys_by_distance = false;  // adds products of keys with rows of the key table
  T scale;

  // Lanes needed for the features of a head.
  std::int64_t dim_lanes() const { return (dim + group<E> - 1) / group<E>; }
  std::int64_t value_lanes() const { return (value_dim + group<E> - 1) / group<E>; }

 private:
  // Rows of the key head that query head h reads.
  Rows<const In> rows_of_key_head(const In* data,
                                  std::int64_t b,
                                  std::int64_t h,
                                  std::int64_t width,
                                  std::int64_t first) const {
    const std::int64_t key_head = h / (heads / key_heads);
    return {data + ((b * keys + first) * key_heads + key_head) * width, key_heads * width};
  }
};

// Useful number of threads for a call: less than about ten microseconds of work does not justify
// waking a thread.
template <typename In>
std::int64_t useful_threads(const Problem<In>& p) {
  constexpr std::int64_t products_a_thread = std::int64_t{1} << 18;
  std::int64_t scores = 0;
  for (const auto& plan : p.plans)
    scores += std::min((plan->full_tiles() + plan->partial_tiles()) * tile * tile, p.time * p.keys);
  const std::int64_t products = p.batch * scores * (p.dim_padded + p.value_padded);
  return std::clamp<std::int64_t>(products / products_a_thread, 1, omp_get_max_threads());
}

// Splits a workspace block into arrays aligned to cache lines. Without a block it only computes the
// size.
class ScratchArena {
 public:
  explicit ScratchArena(std::byte* block) : block_(block) {}

  template <typename T>
  T* take(std::int64_t elements) {
    T* result = block_ == nullptr ? nullptr : reinterpret_cast<T*>(block_ + used_);
    used_ += (elements * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    return result;
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* block_;
  std::int64_t used_ = 0;
};

// The biases u and v of the relative term, converted to accumulators, [heads, dim]; null without
// the term.
template <typename In>
class QueryBiases {
 public:
  using T = Accumulator<In>;

  explicit QueryBiases(const Problem<In>& p) : dim_(p.dim) {
    if (!p.call.relative) return;
    content_.emplace(p.call.relative->content_bias);
    position_.emplace(p.call.relative->position_bias);
  }
  const T* content(std::int64_t h) const {
    return content_ ? content_->data() + h * dim_ : nullptr;
  }
  const T* position(std::int64_t h) const {
    return position_ ? position_->data() + h * dim_ : nullptr;
  }

 private:
  std::int64_t dim_;
  std::optional<AccumulatorView<T>> content_;
  std::optional<AccumulatorView<T>> position_;
};

}  // namespace longspan::tile_attention
