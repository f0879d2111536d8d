// The extents, pointers and factors of one attention call, as the tiles read them.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "framework/kernels/attention.h"
#include "framework/kernels/cpu/attention_plan.h"
#include "framework/kernels/cpu/attention_rows.h"
#include "framework/kernels/cpu/loops.h"

namespace longspan::tile_attention {

// Query tiles that share a packed key tile in the forward pass, and key tiles that share a read
// query tile in the backward pass.
inline constexpr std::int64_t block_tiles = 4;

template <typename In>
struct Problem {
  using T = Accumulator<In>;
  using E = Element<In>;

  explicit Problem(const Attention& a)
      : call(a),
        plan(a),
        batch(a.query.shape()[0]),
        time(plan.time),
        keys(plan.keys),
        heads(a.query.shape()[2]),
        dim(a.query.shape()[3]),
        value_dim(a.value.shape()[3]),
        dim_padded(padded<E>(dim)),
        value_padded(padded<E>(value_dim)),
        query(a.query.data<In>()),
        key(a.key.data<In>()),
        value(a.value.data<In>()),
        scale(static_cast<T>(1 / std::sqrt(static_cast<double>(dim)))) {
    if (a.mask.key_padding.defined()) padding = a.mask.key_padding.data<std::uint8_t>();
  }

  // Row i of a [batch, rows, heads, width] tensor for one batch row and head.
  template <typename E>
  Rows<E> rows(E* data,
               std::int64_t b,
               std::int64_t length,
               std::int64_t h,
               std::int64_t width,
               std::int64_t first) const {
    return {data + ((b * length + first) * heads + h) * width, heads * width};
  }
  Rows<const In> query_rows(std::int64_t b, std::int64_t h, std::int64_t first) const {
    return rows(query, b, time, h, dim, first);
  }
  Rows<const In> key_rows(std::int64_t b, std::int64_t h, std::int64_t first) const {
    return rows(key, b, keys, h, dim, first);
  }
  Rows<const In> value_rows(std::int64_t b, std::int64_t h, std::int64_t first) const {
    return rows(value, b, keys, h, value_dim, first);
  }
  // The key of a distance, for one head.
  const In* position_key_row(std::int64_t h, std::int64_t distance) const {
    return call.relative->position_key.template data<In>() + (distance * heads + h) * dim;
  }
  T* log_sum_exp(std::int64_t b, std::int64_t h, std::int64_t first) const {
    return call.log_sum_exp.template data<T>() + (b * heads + h) * time + first;
  }

  const Attention& call;
  BandPlan plan;
  std::int64_t batch;
  std::int64_t time;
  std::int64_t keys;
  std::int64_t heads;
  std::int64_t dim;
  std::int64_t value_dim;
  std::int64_t dim_padded;
  std::int64_t value_padded;
  const In* query;
  const In* key;
  const In* value;
  const std::uint8_t* padding = nullptr;
  T scale;

  // Lanes that the sum over the features of a head takes.
  std::int64_t dim_lanes() const { return (dim + group<E> - 1) / group<E>; }
  std::int64_t value_lanes() const { return (value_dim + group<E> - 1) / group<E>; }
};

// Threads that the work of one call can feed: less than about ten microseconds each is not worth
// waking one.
template <typename In>
std::int64_t useful_threads(const Problem<In>& p) {
  constexpr std::int64_t products_a_thread = std::int64_t{1} << 18;
  const std::int64_t products =
      p.batch * p.heads * p.time * p.keys * (p.dim_padded + p.value_padded);
  return std::clamp<std::int64_t>(products / products_a_thread, 1, omp_get_max_threads());
}

// Cuts one block of workspace into arrays that begin on cache lines. With no block it only adds up
// the size.
class Carver {
 public:
  explicit Carver(std::byte* block) : block_(block) {}

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

// The biases u and v of the relative term as accumulators, [heads, dim]; null without the term.
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
  std::optional<Widened<T>> content_;
  std::optional<Widened<T>> position_;
};

// Which lanes of a key tile are padding. Padding rows are read as zeros, so that what stands there
// (NaN, say) cannot reach a product.
template <typename T>
struct KeyLanes {
  bool any_seen = true;
  bool all_seen = true;
  alignas(64) T bias[tile];  // 0, or -infinity where the key is padding

  template <typename In>
  void read(const Problem<In>& p, std::int64_t b, Interval at) {
    std::int64_t seen = 0;
    for (std::int64_t j = 0; j < tile; ++j) {
      const bool hidden = j < at.end - at.begin && p.padding != nullptr &&
                          p.padding[b * p.keys + at.begin + j] != 0;
      bias[j] = hidden ? minus_infinity<T> : T{0};
      seen += j < at.end - at.begin && !hidden;
    }
    any_seen = seen > 0;
    all_seen = seen == tile;
  }
};

// Reads a tile of keys or values: [tile, padded width], zeros where there is no key or padding.
template <typename In, typename E>
void read_key_tile(Rows<const In> from,
                   Interval at,
                   std::int64_t width,
                   const KeyLanes<Accumulator<E>>& lanes_seen,
                   E* to) {
  const std::int64_t step = padded<E>(width);
  const std::int64_t rows = at.end - at.begin;
  read_rows<In, E>(from, rows, width, nullptr, to);
  std::fill(to + rows * step, to + tile * step, E{});
  if (!lanes_seen.all_seen)
    for (std::int64_t j = 0; j < rows; ++j)
      if (lanes_seen.bias[j] != 0) std::fill_n(to + j * step, step, E{});
}

}  // namespace longspan::tile_attention
