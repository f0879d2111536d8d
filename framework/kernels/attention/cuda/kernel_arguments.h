// An attention call as kernel arguments: extents, pointers, and the computations for one pair of a
// query and a key.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "framework/kernels/attention/check.h"
#include "framework/kernels/attention/external_scores.h"
#include "framework/kernels/attention/shared/distance_table.h"
#include "framework/kernels/attention/shared/pair_math.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/element.h"

namespace longspan::tile_attention {

inline constexpr int tile = attention_tile;

template <typename T>
inline constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

// Elements in the input dtype or the accumulator dtype.
template <typename In>
struct Either {
  using T = Accumulator<In>;
  In* narrow = nullptr;
  T* wide_ones = nullptr;

  Either() = default;
  explicit Either(const Tensor& tensor) {
    if (tensor.dtype() == DTypeOf<In>::value)
      narrow = tensor.data<In>();
    else
      wide_ones = tensor.data<T>();
  }
  LONGSPAN_HOST_DEVICE bool given() const { return narrow != nullptr || wide_ones != nullptr; }
  __device__ T at(std::int64_t i) const {
    return narrow != nullptr ? wide(narrow[i]) : wide_ones[i];
  }
  // Writes the value to element i, or adds it with `add`.
  __device__ void write(std::int64_t i, T value, bool add) const {
    if (add) value += at(i);
    if (narrow != nullptr)
      put(narrow[i], value);
    else
      wide_ones[i] = value;
  }
};

// Sorted sequences, or none: [batch, heads, rows].
struct SortedView {
  const std::int32_t* query_position = nullptr;
  const std::int32_t* key_position = nullptr;
  const std::int32_t* query_bucket = nullptr;
  const std::int32_t* key_bucket = nullptr;
  bool causal = false;

  SortedView() = default;
  explicit SortedView(const SortedSequence& sorted)
      : query_position(sorted.query_position.data<std::int32_t>()),
        key_position(sorted.key_position.data<std::int32_t>()),
        causal(sorted.causal) {
    if (!sorted.query_bucket.defined()) return;
    query_bucket = sorted.query_bucket.data<std::int32_t>();
    key_bucket = sorted.key_bucket.data<std::int32_t>();
  }
};

// Parameters of hash attention.
template <typename T>
struct HashView {
  bool has_self = false;
  T self = 0;
  const std::int32_t* chunk = nullptr;  // [batch, heads, rounds, positions]
  const std::int32_t* bucket = nullptr;
  std::int64_t rounds = 0;
  std::int64_t positions = 0;
  RoundRule rule{LshTerm{}};
  T floor = 0;

  HashView() = default;
  explicit HashView(const LshTerm& hash)
      : has_self(hash.self_score.has_value()),
        self(static_cast<T>(hash.self_score.value_or(0))),
        rule(hash),
        floor(static_cast<T>(hash.count_floor)) {
    if (!hash.chunk.defined()) return;
    chunk = hash.chunk.data<std::int32_t>();
    if (hash.bucket.defined()) bucket = hash.bucket.data<std::int32_t>();
    rounds = hash.chunk.shape()[2];
    positions = hash.chunk.shape()[3];
  }

  // Logarithm of the number of rounds that two positions share, to subtract from their score. `row`
  // counts batch rows and heads.
  __device__ T logarithm(std::int64_t row, std::int32_t query, std::int32_t key) const {
    T count = floor;
    for (std::int64_t round = 0; round < rounds; ++round) {
      const std::int64_t first = (row * rounds + round) * positions;
      const bool equal = bucket == nullptr || bucket[first + query] == bucket[first + key];
      if (equal && rule.met(chunk[first + query], chunk[first + key])) count += 1;
    }
    return count == 0 ? T{0} : std::log(count);
  }
};

template <typename T>
struct SpanView {
  const T* z = nullptr;
  bool by_token = false;
  SoftSpan<T> soft{SpanTerm{}};

  SpanView() = default;
  explicit SpanView(const SpanTerm& span)
      : z(span.span.data<T>()), by_token(span.span.shape().dimensions() == 3), soft(span) {}
};

// Learned biases by relative position: [heads, 2 reach + 1].
template <typename T>
struct BiasView {
  const T* all = nullptr;
  std::int64_t max_distance = 0;

  BiasView() = default;
  explicit BiasView(const Tensor& bias) : all(bias.data<T>()), max_distance(bias.shape()[1] / 2) {}
  // Bias of a key `after` positions after the query.
  __device__ T at(std::int64_t h, std::int64_t after) const {
    const std::int64_t held = after < -max_distance  ? -max_distance
                              : after > max_distance ? max_distance
                                                     : after;
    return all[h * (2 * max_distance + 1) + max_distance + held];
  }
};

// Given scores of query i and a position.
template <typename In>
struct GivenView {
  using T = Accumulator<In>;
  const In* row = nullptr;   // [1, time, heads, positions]
  const In* low = nullptr;   // [batch, time, heads, lows]
  const In* high = nullptr;  // [batch, time, heads, highs]
  std::int64_t positions = 0;
  std::int64_t lows = 1;
  std::int64_t highs = 0;

  GivenView() = default;
  explicit GivenView(const ExternalScores& given) {
    if (given.row.defined()) {
      row = given.row.data<In>();
      positions = given.row.shape()[3];
    }
    if (!given.low.defined()) return;
    low = given.low.data<In>();
    high = given.high.data<In>();
    lows = given.low.shape()[3];
    highs = given.high.shape()[3];
  }
  LONGSPAN_HOST_DEVICE bool any() const { return row != nullptr || low != nullptr; }
  // `of_row` counts queries and heads, `of_batch` also counts batch rows.
  __device__ T at(std::int64_t of_row, std::int64_t of_batch, std::int64_t position) const {
    T score = 0;
    if (row != nullptr) score += wide(row[of_row * positions + position]);
    if (low != nullptr)
      score += wide(low[of_batch * lows + position % lows]) *
               wide(high[of_batch * highs + position / lows]);
    return score;
  }
};

template <typename T>
struct DropoutView {
  bool active = false;
  Random random{0};
  DropoutIndex index{AttentionDropout{.random = Random(0)}, 1, 1, 1};
  std::uint32_t threshold = 0;
  T factor = 1;

  DropoutView() = default;
  DropoutView(const AttentionDropout& d, std::int64_t time, std::int64_t keys, std::int64_t heads)
      : active(d.rate > 0),
        random(d.random),
        index(d, time, keys, heads),
        threshold(dropout_threshold(d.rate)),
        factor(static_cast<T>(1 / (1 - d.rate))) {}

  // Dropout bits of 32 probabilities of a query and adjacent keys, given the index of the first.
  __device__ std::uint32_t kept(std::uint64_t first) const {
    std::uint32_t bits = 0;
    if (index.fold != 1) {
      for (int j = 0; j < 32; ++j) {
        const std::uint64_t place = first + static_cast<std::uint64_t>(j * index.fold);
        const std::uint32_t of_block = kept_of_block(place / 4);
        bits |= (of_block >> place % 4 & 1) << j;
      }
      return bits;
    }
    // words to skip in the first block of four
    const auto before = static_cast<unsigned>(first % 4);
#pragma unroll 4
    for (int k = 0; k < 8; ++k) bits |= kept_of_block(first / 4 + k) << 4 * k;
    if (before == 0) return bits;
    return bits >> before | kept_of_block(first / 4 + 8) << (32 - before);
  }

 private:
  __device__ std::uint32_t kept_of_block(std::uint64_t block) const {
    const auto [first, second, third, fourth] = random.block(block);
    const auto bit = [this](std::uint32_t word) { return word >> 8 >= threshold ? 1U : 0U; };
    return bit(first) | bit(second) << 1 | bit(third) << 2 | bit(fourth) << 3;
  }
};

template <typename In>
struct AttentionCall {
  using T = Accumulator<In>;

  explicit AttentionCall(const Attention& a, const ExternalScores& external_scores = {})
      : batch(a.query.shape()[0]),
        time(a.query.shape()[1]),
        keys(a.key.shape()[1]),
        heads(a.query.shape()[2]),
        key_heads(a.key.shape()[2]),
        heads_of_key(static_cast<std::uint32_t>(heads / key_heads)),
        dim(static_cast<int>(a.query.shape()[3])),
        value_dim(static_cast<int>(a.value.shape()[3])),
        query_begin(a.mask.query_begin),
        key_begin(a.mask.key_begin),
        query(a.query.data<In>()),
        key(a.key.data<In>()),
        value(a.value.data<In>()),
        out(a.out.data<In>()),
        log_sum_exp(a.log_sum_exp.data<T>()),
        scale(static_cast<T>(a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(dim)))) {
    cap = static_cast<T>(a.cap);
    if (a.mask.key_padding.defined()) padding = a.mask.key_padding.data<std::uint8_t>();
    if (a.mask.key_length.defined()) length = a.mask.key_length.data<std::int64_t>();
    if (a.mask.max_lookback.defined()) max_lookback = a.mask.max_lookback.data<std::int64_t>();
    if (a.mask.sorted) sorted = SortedView(*a.mask.sorted);
    if (a.relative) {
      key_table = DistanceTable<const In>::by_head(a.relative->position_key);
      content_bias = Either<In>(a.relative->content_bias);
      position_bias = Either<In>(a.relative->position_bias);
    }
    if (a.shaw && a.shaw->key_table.defined())
      key_table = DistanceTable<const In>::shared(a.shaw->key_table);
    keys_by_distance = a.shaw && a.shaw->of_keys;
    if (a.shaw && a.shaw->value_table.defined())
      value_table = DistanceTable<const In>::shared(a.shaw->value_table);
    if (a.slopes.defined()) slopes = a.slopes.data<T>();
    if (a.distance_bias.defined()) bias = BiasView<T>(a.distance_bias);
    if (a.span) span = SpanView<T>(*a.span);
    if (a.hash) hash = HashView<T>(*a.hash);
    given = GivenView<In>(external_scores);
    if (a.dropout) dropout = DropoutView<T>(*a.dropout, time, keys, heads);
  }

  LONGSPAN_HOST_DEVICE std::int64_t query_tiles() const { return (time + tile - 1) / tile; }
  LONGSPAN_HOST_DEVICE std::int64_t key_tiles() const { return (keys + tile - 1) / tile; }

  // Offset of element c of row i of a [batch, rows, heads, width] tensor.
  __device__ std::int64_t place(
      std::int64_t b, std::int64_t rows, std::int64_t i, std::int64_t h, int width, int c) const {
    return ((b * rows + i) * heads + h) * width + c;
  }
  // Offset in the key or value tensor, for the key head that query head h reads.
  __device__ std::int64_t key_place(
      std::int64_t b, std::int64_t j, std::int64_t h, int width, int c) const {
    const std::int64_t key_head = static_cast<std::uint32_t>(h) / heads_of_key;
    return ((b * keys + j) * key_heads + key_head) * width + c;
  }
  // Whether `is_key` depends only on the number of keys.
  __device__ bool all_are_keys() const {
    return padding == nullptr && length == nullptr && sorted.key_position == nullptr;
  }
  // Whether key j exists and is not padding; ignores the mask.
  __device__ bool is_key(std::int64_t b, std::int64_t h, std::int64_t j) const {
    if (j >= keys || (padding != nullptr && padding[b * keys + j] != 0)) return false;
    if (length != nullptr && key_begin + j >= length[b]) return false;
    return sorted.key_position == nullptr || sorted.key_position[(b * heads + h) * keys + j] >= 0;
  }
  // The earliest key in the query's lookback, as an index of the call's keys; may be negative.
  __device__ std::int64_t first_key(std::int64_t b, std::int64_t i) const {
    return query_begin + i - max_lookback[b * time + i] - key_begin;
  }
  // The first key tile that is visible to any query of this tile or a later one.
  __device__ std::int64_t first_key_tile(std::int64_t b, std::int64_t query_tile) const {
    if (max_lookback == nullptr || query_tile >= query_tiles()) return 0;
    const std::int64_t first = first_key(b, query_tile * tile);
    return first > 0 ? first / tile : 0;
  }
  // The end of the query tiles that can see a key tile.
  __device__ std::int64_t end_query_tile(std::int64_t b, std::int64_t key_tile) const {
    std::int64_t first = max_lookback == nullptr ? query_tiles() : 0, last = query_tiles();
    while (first < last) {
      const std::int64_t middle = (first + last) / 2;
      if (first_key_tile(b, middle) <= key_tile)
        first = middle + 1;
      else
        last = middle;
    }
    return first;
  }
  // Whether all keys from j on are within the lookback of the 64 queries from i on.
  __device__ bool reaches(std::int64_t b, std::int64_t i, std::int64_t j) const {
    if (max_lookback == nullptr) return true;
    const std::int64_t last = i + tile < time ? i + tile - 1 : time - 1;
    return first_key(b, last) <= j;
  }
  // Bit n: key j + n is within the lookback of query i.
  __device__ std::uint32_t reached(std::int64_t b, std::int64_t i, std::int64_t j) const {
    if (max_lookback == nullptr || i >= time) return ~std::uint32_t{0};
    const std::int64_t hidden = first_key(b, i) - j;
    return hidden <= 0 ? ~std::uint32_t{0} : hidden >= 32 ? 0 : ~std::uint32_t{0} << hidden;
  }
  __device__ std::int32_t query_position(std::int64_t b, std::int64_t h, std::int64_t i) const {
    if (sorted.query_position != nullptr) return sorted.query_position[(b * heads + h) * time + i];
    return static_cast<std::int32_t>(query_begin + i);
  }
  __device__ std::int32_t key_position(std::int64_t b, std::int64_t h, std::int64_t j) const {
    if (sorted.key_position != nullptr) return sorted.key_position[(b * heads + h) * keys + j];
    return static_cast<std::int32_t>(key_begin + j);
  }
  __device__ T span_of(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return span.z[span.by_token ? (b * time + i) * heads + h : h];
  }
  // Halves of the tiles' bands (relative_band.h), starting with the first, which only a query tile
  // beyond the last has. half_distance: the relative position of the first row of half m.
  // half_place: the offset of its 64 entries.
  LONGSPAN_HOST_DEVICE std::int64_t first_half() const { return -query_tiles(); }
  LONGSPAN_HOST_DEVICE std::int64_t halves() const { return query_tiles() + key_tiles() + 1; }
  LONGSPAN_HOST_DEVICE std::int64_t half_distance(std::int64_t m) const {
    return query_begin - key_begin - m * tile + tile - 1;
  }
  LONGSPAN_HOST_DEVICE std::int64_t half_place(std::int64_t h, std::int64_t m) const {
    return (h * halves() + m - first_half()) * tile;
  }
  LONGSPAN_HOST_DEVICE std::int64_t key_bias_index(std::int64_t b,
                                                   std::int64_t h,
                                                   std::int64_t first) const {
    return (b * heads + h) * key_tiles() * tile + first;
  }
  // Whether a score depends on more than the product.
  LONGSPAN_HOST_DEVICE bool has_terms() const {
    return slopes != nullptr || bias.all != nullptr || span.z != nullptr || hash.has_self ||
           hash.rounds > 0;
  }
  // Whether pairs of a full tile must be checked individually. Hash rounds require sorted keys,
  // which are checked anyway.
  __device__ bool has_pair_terms() const {
    return padding != nullptr || length != nullptr || sorted.query_position != nullptr ||
           hash.has_self;
  }

  std::int64_t batch;
  std::int64_t time;
  std::int64_t keys;
  std::int64_t heads;
  std::int64_t key_heads;
  std::uint32_t heads_of_key;  // query heads that share one key head
  int dim;
  int value_dim;
  std::int64_t query_begin;
  std::int64_t key_begin;
  const In* query;
  const In* key;
  const In* value;
  In* out;
  T* log_sum_exp;
  T scale;
  T cap = 0;  // not supported on matrix units
  const std::uint8_t* padding = nullptr;
  const std::int64_t* length = nullptr;
  const std::int64_t* max_lookback = nullptr;  // [batch, time]
  SortedView sorted;
  DistanceTable<const In> key_table;
  DistanceTable<const In> value_table;
  bool keys_by_distance = false;  // adds products of keys with rows of the key table
  Either<In> content_bias;
  Either<In> position_bias;
  // Precomputed products of the biases with each key, u . k, and with each row of the table, v . r:
  // [batch, heads, 64 key tiles] and [heads, halves, 64]. May be null.
  const T* key_bias = nullptr;
  const T* distance_bias = nullptr;
  const T* slopes = nullptr;
  BiasView<T> bias;
  SpanView<T> span;
  HashView<T> hash;
  GivenView<In> given;  // not supported on matrix units
  DropoutView<T> dropout;
};

// Compile-time upper bound on the terms of a call. Absent terms use no registers.
enum class Terms : std::uint8_t {
  any,
  key_distances,  // a relative-position key table, no dropout
  no_tables,      // no relative-position tables
  none            // masks only, no dropout
};

template <typename In>
Terms terms_of(const AttentionCall<In>& call) {
  const bool has_more = call.has_terms() || call.dropout.active;
  if (call.value_table || (call.key_table && has_more)) return Terms::any;
  return call.key_table ? Terms::key_distances : has_more ? Terms::no_tables : Terms::none;
}

// Returns a copy of the call specialized at compile time; only the members in use occupy registers.
template <Terms terms, typename In>
__device__ __forceinline__ decltype(auto) known(const AttentionCall<In>& call) {
  if constexpr (terms == Terms::any) {
    return (call);
  } else {
    AttentionCall<In> copy = call;
    copy.value_table.lowest = nullptr;
    if constexpr (terms != Terms::key_distances) {
      copy.key_table.lowest = nullptr;
      copy.key_bias = copy.distance_bias = nullptr;
    }
    if constexpr (terms != Terms::no_tables) {
      copy.slopes = copy.bias.all = copy.span.z = nullptr;
      copy.hash.has_self = copy.dropout.active = false;
      copy.hash.rounds = 0;
    }
    return copy;
  }
}

// Consecutive heads that share one plan.
struct HeadGroup {
  std::int64_t begin;
  std::int64_t count;
  std::shared_ptr<const TilePlan> plan;
};
inline std::vector<HeadGroup> head_groups(const Attention& a) {
  std::vector<HeadGroup> groups;
  std::int64_t h = 0;
  for (const auto& plan : plans_of(a)) {
    if (groups.empty() || groups.back().plan != plan) groups.push_back({h, 0, plan});
    ++groups.back().count;
    ++h;
  }
  return groups;
}

}  // namespace longspan::tile_attention
