// Chunk of tokens of a gated recurrence, whose products with the state are those of small matrices
// (the WY form of Yang et al. 2024 for corrected states).
//
// In a chunk, with the state S before it, b_i the sum of the log gates up to token i and all
// exponents by channel, token i has
//   c_i = (e^(b_(i-1)) a_i)^T S + sum over j < i of (e^(b_(i-1) - b_j) a_i . k_j) u_j + (same with
//         b_j) c_j,   the correction a_i^T S_(i-1)
//   y_i = (e^(b_i) q_i)^T S + sum over j <= i of (e^(b_i - b_j) q_i . k_j) u_j + (same) c_j
// and S becomes e^(b_n) S + sum over j of e^(b_n - b_j) (k_j u_j^T + b_j c_j^T). u_j is the value
// of token j or, by the delta rule, where a_i = e^(g_i) k_i, its error v_j - c_j. e^(b_i - b_j) is
// the product of two factors relative to the first token, so a chunk ends before a token whose
// factor would be too small, and where a document does.
#pragma once

#include <hwy/cache_control.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "framework/kernels/attention/cpu/recurrence_products.h"
#include "framework/kernels/attention/gated_recurrence.h"
#include "framework/kernels/element.h"
#include "framework/kernels/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::recurrence_cpu {

constexpr std::int64_t most_tokens = 16;  // of a chunk
static_assert(recurrence_segment % most_tokens == 0);
// e^(b_i - b_1) of a chunk. Its inverse, and its products with gradients, are normal in f32.
constexpr double least_factor = 1e-18;

// Columns of a block of the state: with 128 keys, a block and its gradient stay in an L1 cache of
// 32 KiB.
template <typename T>
inline constexpr std::int64_t block = std::max(lanes<T>,
                                               static_cast<std::int64_t>(128 / sizeof(T)));

// How a token corrects the state: not at all; by the delta rule, where it writes the error of its
// value instead of the value; or by a and b.
enum class Correction : std::uint8_t { none, delta, given };

// Elements of a floating tensor with accumulator T. Only reading and writing depend on its dtype,
// so that the products are compiled once per accumulator. An undefined tensor can only be
// prefetched.
template <typename T>
class Elements {
 public:
  explicit Elements(const Tensor& x) : data_(x.bytes()), dtype_(x.dtype()) {}

  // `count` elements from index `at` on: the tensor's own, or else converted into `converted`.
  const T* read(std::int64_t at, std::int64_t count, T* converted) const {
    return visit([&]<typename E>(E* elements) -> const T* {
      if constexpr (std::is_same_v<E, T>) return elements + at;
      for (std::int64_t i = 0; i < count; ++i) converted[i] = wide(elements[at + i]);
      return converted;
    });
  }
  void write(std::int64_t at, std::int64_t count, const T* from) const {
    visit([&](auto* elements) {
      for (std::int64_t i = 0; i < count; ++i) put(elements[at + i], from[i]);
    });
  }
  void prefetch(std::int64_t at, std::int64_t count) const {
    if (data_ == nullptr) return;
    const auto size = static_cast<std::int64_t>(size_of(dtype_));
    for (std::int64_t byte = at * size; byte < (at + count) * size; byte += 64)
      hwy::Prefetch(data_ + byte);
  }

 private:
  template <typename F>
  auto visit(const F& f) const {
    if constexpr (std::is_same_v<T, float>) {
      if (dtype_ == DType::bf16) return f(reinterpret_cast<BFloat16*>(data_));
      if (dtype_ == DType::f16) return f(reinterpret_cast<Float16*>(data_));
    }
    return f(reinterpret_cast<T*>(data_));
  }

  std::byte* data_;
  DType dtype_;
};

// Extents of a call, and its elements. T: the accumulator of its dtype.
template <typename T>
struct Problem {
  explicit Problem(const GatedRecurrence& from)
      : call(from),
        batch(from.query.shape()[0]),
        time(from.query.shape()[1]),
        heads(from.query.shape()[2]),
        keys(from.query.shape()[3]),
        values(from.value.shape()[3]),
        key_width(tile_attention::round_up(keys, lanes<T>)),
        value_width(tile_attention::round_up(values, lanes<T>)),
        blocks((value_width + block<T> - 1) / block<T>),
        query(from.query),
        key(from.key),
        a(from.a),
        b(from.b),
        log_decay(elements_or_null<T>(from.log_decay)),
        beta(elements_or_null<T>(from.beta)),
        position(elements_or_null<std::int64_t>(from.document_position)) {}

  // Elements of a state in blocks, [blocks][keys, columns of the block].
  std::int64_t state() const { return keys * value_width; }
  std::int64_t columns(std::int64_t i) const {
    return std::min(block<T>, value_width - i * block<T>);
  }
  Matrix<T> block_of(T* state, std::int64_t i) const {
    return {state + i * keys * block<T>, columns(i)};
  }
  // Index of a token in [batch, time, heads].
  std::int64_t place(std::int64_t head, std::int64_t t) const {
    return (head / heads * time + t) * heads + head % heads;
  }
  bool starts(std::int64_t head, std::int64_t t) const {
    return position != nullptr && position[head / heads * time + t] == 0;
  }

  const GatedRecurrence& call;
  std::int64_t batch, time, heads, keys, values;
  std::int64_t key_width, value_width;  // padded to vectors
  std::int64_t blocks;
  Elements<T> query, key, a, b;
  const T *log_decay, *beta;
  const std::int64_t* position;
};

template <typename T>
std::vector<T> zeros(std::int64_t elements) {
  return std::vector<T>(static_cast<std::size_t>(elements));
}

// A factor of each channel, or of all.
template <bool by_channel, typename T>
struct Factor {
  explicit Factor(const T* from) : row(from) {}
  HWY_INLINE T operator[](std::int64_t c) const { return row[c]; }
  const T* row;
};
template <typename T>
struct Factor<false, T> {
  explicit Factor(const T* from) : one(*from) {}
  HWY_INLINE T operator[](std::int64_t) const { return one; }
  T one;
};

// A chunk of a head: the factors of its products, in rows of key_width elements for each token.
// by_channel: gates have a row of key_width elements too; otherwise one element.
template <typename T, Correction kind, bool by_channel>
class Chunk {
 public:
  using Gate = Factor<by_channel, T>;
  static constexpr std::int64_t square = most_tokens * most_tokens;

  explicit Chunk(const Problem<T>& problem)
      : p(problem),
        gate_width(by_channel ? p.key_width : 1),
        rows_(zeros<T>(8 * most_tokens * p.key_width)),
        gates_(zeros<T>((4 * most_tokens + 1) * gate_width)),
        squares_(zeros<T>(4 * square)),
        turned_(zeros<T>(2 * most_tokens * p.key_width)),
        converted_(zeros<T>(std::max(p.key_width, p.value_width))) {
    T* next = rows_.data();
    for (Matrix<T>* const x :
         {&query, &query_state, &term, &term_state, &key, &key_end, &b_term, &b_end})
      *x = {std::exchange(next, next + most_tokens * p.key_width), p.key_width};
    next = gates_.data();
    for (Matrix<T>* const x : {&gate, &since_first, &inverse, &until_end})
      *x = {std::exchange(next, next + most_tokens * gate_width), gate_width};
    whole = next;
    T* square_at = squares_.data();
    for (Matrix<T>* const x : {&query_key, &query_b, &term_key, &term_b})
      *x = {std::exchange(square_at, square_at + square), most_tokens};
  }

  Chunk(const Chunk&) = delete;

  // Reads the tokens from `first` on, up to `end` at most; sets the number of tokens. Without
  // outputs, computes only what the state after the chunk requires.
  void load(std::int64_t head, std::int64_t first, std::int64_t end, bool outputs = true) {
    begin = first;
    starts_document = p.starts(head, first);
    count = 0;
    head_ = head;
    while (count < most_tokens && begin + count < end && load_gate(count, outputs)) ++count;
    for (std::int64_t i = count - 1; i >= 0; --i) load_token(i, outputs);
    for (std::int64_t c = 0; c < gates(); ++c) whole[c] = until_end.row(0)[c] * gate.row(0)[c];
    load_squares(outputs);
  }
  // Prefetches tokens of a chunk that starts at `first`, with their rows of `of_values`: the part
  // for one block, so that a pass over all blocks prefetches the whole chunk. The rows of a head
  // are far apart in memory, where hardware prefetching does not reach.
  void prefetch(std::int64_t block_index,
                std::int64_t first,
                const Tensor& of_values,
                bool outputs = true) const {
    const Elements<T> values(of_values), log_decay(p.call.log_decay);
    const std::int64_t end = std::min(first + (block_index + 1) * most_tokens / p.blocks, p.time);
    for (std::int64_t t = first + block_index * most_tokens / p.blocks; t < end; ++t) {
      const std::int64_t at = p.place(head_, t);
      if (outputs) p.query.prefetch(at * p.keys, p.keys);
      for (const Elements<T>* const x : {&p.key, &p.a, &p.b}) x->prefetch(at * p.keys, p.keys);
      if constexpr (by_channel) log_decay.prefetch(at * p.keys, p.keys);
      values.prefetch(at * p.values, p.values);
    }
  }
  // Reads the rows of x [batch, time, heads, values] to [columns] rows of each block.
  void load_values(const Tensor& x, std::vector<T>& to) {
    const Elements<T> elements(x);
    for (std::int64_t i = 0; i < count; ++i) {
      const T* const from = elements.read(place(i) * p.values, p.values, converted_.data());
      for_blocks([&](std::int64_t column, std::int64_t columns) {
        T* const row = to.data() + most_tokens * column + i * columns;
        const std::int64_t n = std::min(columns, p.values - column);
        std::copy_n(from + column, n, row);
        std::fill(row + n, row + columns, T{});
      });
    }
  }
  void write_values(const std::vector<T>& from, const Tensor& x) const {
    const Elements<T> elements(x);
    for (std::int64_t i = 0; i < count; ++i)
      for_blocks([&](std::int64_t column, std::int64_t columns) {
        elements.write(place(i) * p.values + column,
                       std::min(columns, p.values - column),
                       from.data() + most_tokens * column + i * columns);
      });
  }
  // The rows of block i of values.
  Matrix<T> value_rows(std::vector<T>& x, std::int64_t i) const {
    return {x.data() + most_tokens * i * block<T>, p.columns(i)};
  }
  template <typename F>
  void for_blocks(const F& f) const {
    for (std::int64_t i = 0; i < p.blocks; ++i) f(i * block<T>, p.columns(i));
  }
  std::int64_t place(std::int64_t i) const { return p.place(head_, begin + i); }
  T beta(std::int64_t i) const { return p.beta[place(i)]; }
  // The keys of token i, until the next row is read.
  const T* read_key(std::int64_t i) {
    return p.key.read(place(i) * p.keys, p.keys, converted_.data());
  }

  // Computes the corrections of a block, and replaces its values by what the tokens write.
  void correct(const Matrix<T>& state, const Matrix<T>& value, const Matrix<T>& correction) const {
    if constexpr (kind == Correction::none) return;
    const std::int64_t columns = state.step;
    multiply<false, Store::replace>(count, p.keys, columns, term_state, state, correction);
    if constexpr (kind == Correction::given)
      multiply<false, Store::add>(count, count, columns, term_key, value, correction);
    for (std::int64_t i = 0; i < count; ++i) {
      T* const c = correction.row(i);
      for (std::int64_t j = 0; j < i; ++j)
        if constexpr (kind == Correction::given)
          add_scaled(term_b.row(i)[j], correction.row(j), c, columns);
        else
          add_scaled(term_key.row(i)[j], value.row(j), c, columns);
      if constexpr (kind == Correction::delta) add_scaled(T{-1}, c, value.row(i), columns);
    }
  }
  // Computes a block of the state after the chunk.
  void advance(const Matrix<T>& state,
               const Matrix<T>& next,
               const Matrix<T>& written,
               const Matrix<T>& correction) const {
    const OuterProducts<T> own = {count, key_end, written};
    if constexpr (kind == Correction::given)
      update(state, next, std::array{own, OuterProducts<T>{count, b_end, correction}});
    else
      update(state, next, std::array{own});
  }
  // next = whole * state + products.
  template <std::size_t terms>
  void update(const Matrix<T>& state,
              const Matrix<T>& next,
              const std::array<OuterProducts<T>, terms>& products) const {
    const Gate factor(whole);
    update_state(
        p.keys, state, next, [&](std::int64_t c) { return factor[c]; }, products);
  }
  // Number of gates of a token.
  std::int64_t gates() const { return by_channel ? p.keys : 1; }
  const Problem<T>& p;
  std::int64_t gate_width;
  std::int64_t begin = 0, count = 0;
  bool starts_document = false;
  Matrix<T> gate;                // e^g
  Matrix<T> since_first;         // e^(b_i - b_1)
  Matrix<T> inverse;             // 1 / since_first
  Matrix<T> until_end;           // e^(b_n - b_i)
  Matrix<T> query, query_state;  // scaled query, times e^(b_i - b_1) and times e^(b_i)
  Matrix<T> term, term_state;    // as the query: a, times the factors of the token before
  Matrix<T> key, key_end;        // k of the recurrence, over e^(b_i - b_1) and times e^(b_n - b_i)
  Matrix<T> b_term, b_end;       // as the key: b
  T* whole = nullptr;            // e^(b_n)
  // Products of query or a with key or b of earlier tokens; those of a query also with its own.
  Matrix<T> query_key, query_b, term_key, term_b;

 private:
  // Reads the gates of token i. Returns whether it belongs to the chunk.
  bool load_gate(std::int64_t i, bool outputs) {
    if (i > 0 && p.starts(head_, begin + i)) return false;
    const std::int64_t n = gates();
    T *const w = gate.row(i), *const factor = since_first.row(i), *const over = inverse.row(i);
    if (p.log_decay == nullptr) {
      *w = *factor = *over = 1;
      return true;
    }
    const T* const from = p.log_decay + place(i) * n;
#pragma omp simd
    for (std::int64_t c = 0; c < n; ++c) w[c] = fast_exp(from[c]);
    if (i == 0) {
      std::fill_n(factor, n, T{1});
      std::fill_n(over, n, T{1});
      return true;
    }
    const T* const before = since_first.row(i - 1);
    std::int32_t small = 0;
#pragma omp simd reduction(+ : small)
    for (std::int64_t c = 0; c < n; ++c) {
      const T product = before[c] * w[c];
      factor[c] = product;
      small += product < static_cast<T>(least_factor) ? 1 : 0;
    }
    if (has_products(outputs))
#pragma omp simd
      for (std::int64_t c = 0; c < n; ++c) over[c] = 1 / factor[c];
    return small == 0;
  }
  // Computes the factors of token i, after those of the token after it.
  void load_token(std::int64_t i, bool outputs) {
    const std::int64_t at = place(i) * p.keys;
    T* const end = until_end.row(i);
    if (i + 1 == count) {
      std::fill_n(end, gates(), T{1});
    } else {
      const T *const after = until_end.row(i + 1), *const w = gate.row(i + 1);
#pragma omp simd
      for (std::int64_t c = 0; c < gates(); ++c) end[c] = after[c] * w[c];
    }
    const T* const factor = since_first.row(i);
    T* const converted = converted_.data();
    if (outputs)
      load_pair(p.query.read(at, p.keys, converted),
                static_cast<T>(p.call.scale),
                factor,
                query.row(i),
                query_state.row(i));
    const T* const own_key = read_key(i);
    if (has_products(outputs))
      load_key(own_key, kind == Correction::delta ? beta(i) : T{1}, i, key.row(i), key_end.row(i));
    else
      load_end(own_key, i, key_end.row(i));
    if constexpr (kind == Correction::delta) {
      load_pair(own_key, T{1}, factor, term.row(i), term_state.row(i));
    } else if constexpr (kind == Correction::given) {
      load_key(p.b.read(at, p.keys, converted), T{1}, i, b_term.row(i), b_end.row(i));
      const T* const a = p.a.read(at, p.keys, converted);
      if (i > 0) {
        load_pair(a, T{1}, since_first.row(i - 1), term.row(i), term_state.row(i));
      } else {
        std::copy_n(a, p.keys, term.row(0));
        std::copy_n(a, p.keys, term_state.row(0));
      }
    }
  }
  void load_pair(const T* from, T scale, const T* factor, T* to, T* to_state) const {
    const Gate by(factor), first(gate.row(0));
#pragma omp simd
    for (std::int64_t c = 0; c < p.keys; ++c) {
      const T x = scale * from[c] * by[c];
      to[c] = x;
      to_state[c] = x * first[c];
    }
  }
  void load_key(const T* from, T scale, std::int64_t i, T* to, T* to_end) const {
    const Gate over(inverse.row(i)), end(until_end.row(i));
#pragma omp simd
    for (std::int64_t c = 0; c < p.keys; ++c) {
      const T x = scale * from[c];
      to[c] = x * over[c];
      to_end[c] = x * end[c];
    }
  }
  void load_end(const T* from, std::int64_t i, T* to_end) const {
    const Gate end(until_end.row(i));
#pragma omp simd
    for (std::int64_t c = 0; c < p.keys; ++c) to_end[c] = from[c] * end[c];
  }
  // Whether products of tokens are needed.
  static bool has_products(bool outputs) { return outputs || kind != Correction::none; }
  void load_squares(bool outputs) {
    if (!has_products(outputs)) return;
    const Matrix<T> keys = {turned_.data(), most_tokens};
    transpose(count, p.key_width, key, keys);
    if (outputs) product(query, keys, query_key, 1);
    if constexpr (kind != Correction::none) product(term, keys, term_key, 0);
    if constexpr (kind != Correction::given) return;
    const Matrix<T> b_terms = {turned_.data() + most_tokens * p.key_width, most_tokens};
    transpose(count, p.key_width, b_term, b_terms);
    if (outputs) product(query, b_terms, query_b, 1);
    product(term, b_terms, term_b, 0);
  }
  // The products of a token with the tokens before i + own, zeros after them.
  void product(const Matrix<T>& left,
               const Matrix<T>& right,
               const Matrix<T>& to,
               std::int64_t own) const {
    multiply<false, Store::replace>(count, p.keys, most_tokens, left, right, to);
    for (std::int64_t i = 0; i < count; ++i)
      std::fill(to.row(i) + i + own, to.row(i) + most_tokens, T{});
  }

  std::int64_t head_ = 0;
  std::vector<T> rows_, gates_, squares_, turned_;
  std::vector<T> converted_;  // a row of elements
};

// Copies between a state in blocks and one of a tensor; null: zero.
template <typename T>
void read_state(const Problem<T>& p, const T* from, T* to) {
  std::fill_n(to, p.state(), T{});
  if (from == nullptr) return;
  for (std::int64_t i = 0; i < p.blocks; ++i) {
    const Matrix<T> rows = p.block_of(to, i);
    const std::int64_t column = i * block<T>, columns = std::min(rows.step, p.values - column);
    for (std::int64_t c = 0; c < p.keys; ++c)
      std::copy_n(from + c * p.values + column, columns, rows.row(c));
  }
}
template <typename T>
void write_state(const Problem<T>& p, T* from, T* to) {
  for (std::int64_t i = 0; i < p.blocks; ++i) {
    const Matrix<T> rows = p.block_of(from, i);
    const std::int64_t column = i * block<T>, columns = std::min(rows.step, p.values - column);
    for (std::int64_t c = 0; c < p.keys; ++c)
      std::copy_n(rows.row(c), columns, to + c * p.values + column);
  }
}
// The state of a head in a tensor [batch, heads, keys, values], or of a checkpoint.
template <typename T>
T* state_of(const Problem<T>& p, const Tensor& x, std::int64_t head, std::int64_t segment = 0) {
  if (!x.defined()) return nullptr;
  return x.data<T>() + (segment * p.batch * p.heads + head) * p.keys * p.values;
}

}  // namespace longspan::recurrence_cpu
HWY_AFTER_NAMESPACE();
