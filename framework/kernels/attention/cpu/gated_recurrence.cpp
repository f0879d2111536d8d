// Gated recurrences on the CPU, token by token. A block of the state's columns stays in the L1
// cache: for each token, one pass over its rows decays, corrects and writes them, and reads the
// output of the token and the correction of the next one.
#include "framework/kernels/attention/gated_recurrence.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/kernels/attention/cpu/tile_gemm.h"
#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/element.h"
#include "framework/kernels/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace recurrence_cpu {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using tile_attention::lanes;
using tile_attention::Tag;
using tile_attention::Vector;

constexpr std::int64_t tile = 16;  // tokens whose states the backward pass keeps
static_assert(recurrence_segment % tile == 0);

// Columns of a block of the state.
template <typename T>
inline constexpr std::int64_t block = 4 * lanes<T>;

// How a token corrects the state: not at all; by the delta rule, where it writes the error of its
// value instead of the value; or by a and b.
enum class Correction : std::uint8_t { none, delta, given };

// A row of a block, in registers.
template <typename T>
struct Row {
  Vector<T> x0, x1, x2, x3;

  static HWY_INLINE Row zero() {
    const auto z = hn::Zero(Tag<T>());
    return {z, z, z, z};
  }
  static HWY_INLINE Row load(const T* from) {
    const Tag<T> tag;
    constexpr std::int64_t n = lanes<T>;
    return {hn::LoadU(tag, from),
            hn::LoadU(tag, from + n),
            hn::LoadU(tag, from + 2 * n),
            hn::LoadU(tag, from + 3 * n)};
  }
  HWY_INLINE void store(T* to) const {
    const Tag<T> tag;
    constexpr std::int64_t n = lanes<T>;
    hn::StoreU(x0, tag, to);
    hn::StoreU(x1, tag, to + n);
    hn::StoreU(x2, tag, to + 2 * n);
    hn::StoreU(x3, tag, to + 3 * n);
  }
  HWY_INLINE Row times(T factor) const {
    const auto f = hn::Set(Tag<T>(), factor);
    return {hn::Mul(x0, f), hn::Mul(x1, f), hn::Mul(x2, f), hn::Mul(x3, f)};
  }
  // This row plus factor * x.
  HWY_INLINE Row plus(T factor, const Row& x) const {
    const auto f = hn::Set(Tag<T>(), factor);
    return {hn::MulAdd(f, x.x0, x0),
            hn::MulAdd(f, x.x1, x1),
            hn::MulAdd(f, x.x2, x2),
            hn::MulAdd(f, x.x3, x3)};
  }
  // This row plus x * y.
  HWY_INLINE Row plus_product(const Row& x, const Row& y) const {
    return {hn::MulAdd(x.x0, y.x0, x0),
            hn::MulAdd(x.x1, y.x1, x1),
            hn::MulAdd(x.x2, y.x2, x2),
            hn::MulAdd(x.x3, y.x3, x3)};
  }
  HWY_INLINE Row minus(const Row& x) const {
    return {hn::Sub(x0, x.x0), hn::Sub(x1, x.x1), hn::Sub(x2, x.x2), hn::Sub(x3, x.x3)};
  }
  // The products of the elements of two rows, summed to one vector.
  HWY_INLINE Vector<T> products(const Row& x) const {
    const auto low = hn::MulAdd(x1, x.x1, hn::Mul(x0, x.x0));
    const auto high = hn::MulAdd(x3, x.x3, hn::Mul(x2, x.x2));
    return hn::Add(low, high);
  }
  HWY_INLINE Vector<T> sum() const { return hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)); }
};

// Adds the sum of the lanes of each vector to an element of `to`.
template <typename T, std::size_t n>
HWY_INLINE void add_sums(const std::array<Vector<T>, n>& x, T* to) {
  const Tag<T> tag;
#if HWY_MAX_BYTES == 64
  if constexpr (std::is_same_v<T, float> && n == 4) {
    // Sums pairs of vectors at a time, then the quarters of one vector that has lanes of all four.
    const auto pair = [&](Vector<T> a, Vector<T> b) HWY_ATTR {
      return hn::Add(hn::InterleaveLower(tag, a, b), hn::InterleaveUpper(tag, a, b));
    };
    const hn::RebindToUnsigned<Tag<T>> narrow;
    const hn::RepartitionToWide<decltype(narrow)> wide;
    const auto first = hn::BitCast(wide, pair(x[0], x[1]));
    const auto second = hn::BitCast(wide, pair(x[2], x[3]));
    const auto all = hn::Add(hn::BitCast(tag, hn::InterleaveLower(wide, first, second)),
                             hn::BitCast(tag, hn::InterleaveUpper(wide, first, second)));
    const hn::Half<Tag<T>> half;
    const hn::Half<decltype(half)> quarter;
    const auto halves = hn::Add(hn::LowerHalf(half, all), hn::UpperHalf(half, all));
    const auto sums = hn::Add(hn::LowerHalf(quarter, halves), hn::UpperHalf(quarter, halves));
    hn::StoreU(hn::Add(hn::LoadU(quarter, to), sums), quarter, to);
    return;
  }
#endif
  for (std::size_t i = 0; i < n; ++i) to[i] += hn::GetLane(hn::SumOfLanes(tag, x[i]));
}

// Calls f(c, size) for groups of `size` rows that begin at c: four, and single ones at the end.
template <typename F>
HWY_INLINE void for_row_groups(std::int64_t rows, const F& f) {
  constexpr std::int64_t size = 4;
  std::int64_t c = 0;
  for (; c + size <= rows; c += size) f(c, std::integral_constant<std::size_t, size>());
  for (; c < rows; ++c) f(c, std::integral_constant<std::size_t, 1>());
}

// Extents of a call, and a head of it.
template <typename In>
struct Problem {
  using T = Accumulator<In>;

  explicit Problem(const GatedRecurrence& from)
      : call(from),
        batch(from.query.shape()[0]),
        time(from.query.shape()[1]),
        heads(from.query.shape()[2]),
        keys(from.query.shape()[3]),
        values(from.value.shape()[3]),
        blocks((values + block<T> - 1) / block<T>),
        state(blocks * keys * block<T>),
        query(from.query.data<In>()),
        key(from.key.data<In>()),
        a(elements_or_null<In>(from.a)),
        b(elements_or_null<In>(from.b)),
        log_decay(elements_or_null<T>(from.log_decay)),
        beta(elements_or_null<T>(from.beta)),
        position(elements_or_null<std::int64_t>(from.document_position)) {}

  const GatedRecurrence& call;
  std::int64_t batch, time, heads, keys, values, blocks;
  std::int64_t state;  // elements of a state in blocks
  const In *query, *key, *a, *b;
  const T *log_decay, *beta;
  const std::int64_t* position;
};

// Tokens of a tile of a head. The arrays have a row of `keys` elements for each token.
template <typename In>
class Tokens {
 public:
  using T = Accumulator<In>;

  explicit Tokens(const Problem<In>& p)
      : p_(p), rows_(static_cast<std::size_t>((6 * tile + 1) * p.keys)) {
    T* next = rows_.data();
    const auto take = [&](std::int64_t tokens) {
      return std::exchange(next, next + tokens * p.keys);
    };
    query = take(tile);
    key = take(tile);
    decay = take(tile);
    written = take(tile);
    b_term = take(tile);
    a_term = take(tile + 1);
  }

  // Reads the tokens [begin, begin + count) of a head; `a_term` has the token after them too.
  void load(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t count) {
    b_ = b;
    h_ = h;
    begin_ = begin;
    for (std::int64_t i = 0; i < count; ++i) load_token(i);
    load_a_term(count);
  }
  // [blocks, block] of token i of x [batch, time, heads, values].
  void load_values(const Tensor& x, std::int64_t count, T* to) const {
    const std::int64_t width = p_.blocks * block<T>;
    const In* const all = x.data<In>();
    for (std::int64_t i = 0; i < count; ++i) {
      const In* const from = all + place(i) * p_.values;
      T* const row = to + i * width;
      for (std::int64_t c = 0; c < p_.values; ++c) row[c] = wide(from[c]);
      std::fill(row + p_.values, row + width, T{});
    }
  }
  // Index of token i in [batch, time, heads].
  std::int64_t place(std::int64_t i) const { return (b_ * p_.time + begin_ + i) * p_.heads + h_; }
  // Whether token i starts a document.
  bool starts(std::int64_t i) const {
    return p_.position != nullptr && p_.position[b_ * p_.time + begin_ + i] == 0;
  }
  T beta(std::int64_t i) const { return p_.beta[place(i)]; }

  T *query, *key;       // scaled; as given
  T* decay;             // e^g
  T *written, *b_term;  // k and b of the recurrence
  T* a_term;            // a, [tile + 1]

 private:
  void load_token(std::int64_t i) {
    const std::int64_t n = p_.keys, at = place(i) * n;
    const T scale = static_cast<T>(p_.call.scale);
    T* const q = query + i * n;
    T* const k = key + i * n;
    T* const to = written + i * n;
    for (std::int64_t c = 0; c < n; ++c) {
      q[c] = scale * wide(p_.query[at + c]);
      k[c] = wide(p_.key[at + c]);
    }
    load_decay(i, decay + i * n);
    if (p_.beta != nullptr) {
      const T step = beta(i);
      T* const out = b_term + i * n;
      for (std::int64_t c = 0; c < n; ++c) {
        to[c] = step * k[c];
        out[c] = -to[c];
      }
    } else {
      std::copy_n(k, n, to);
      if (p_.b != nullptr) convert(p_.b + at, b_term + i * n);
    }
    load_a_term(i);
  }
  void convert(const In* from, T* to) const {
    for (std::int64_t c = 0; c < p_.keys; ++c) to[c] = wide(from[c]);
  }
  void load_decay(std::int64_t i, T* to) const {
    if (p_.log_decay == nullptr) {
      std::fill_n(to, p_.keys, T{1});
    } else if (p_.call.has_channel_gates()) {
      const T* const from = p_.log_decay + place(i) * p_.keys;
#pragma omp simd
      for (std::int64_t c = 0; c < p_.keys; ++c) to[c] = fast_exp(from[c]);
    } else {
      std::fill_n(to, p_.keys, fast_exp(p_.log_decay[place(i)]));
    }
  }
  void load_a_term(std::int64_t i) {
    T* const to = a_term + i * p_.keys;
    if (!p_.call.corrects()) return;
    if (begin_ + i >= p_.time) {
      std::fill_n(to, p_.keys, T{});
      return;
    }
    const std::int64_t at = place(i) * p_.keys;
    if (p_.a != nullptr) {
      convert(p_.a + at, to);
      return;
    }
    load_decay(i, to);
    const In* const k = p_.key + at;
    for (std::int64_t c = 0; c < p_.keys; ++c) to[c] *= wide(k[c]);
  }

  const Problem<In>& p_;
  std::int64_t b_ = 0, h_ = 0, begin_ = 0;
  std::vector<T> rows_;
};

// Returns the row that a token writes to a block of the state: its values, or their errors.
template <Correction kind, typename T>
HWY_INLINE Row<T> written_row(const Row<T>& value, const Row<T>& correction) {
  return kind == Correction::delta ? value.minus(correction) : value;
}

// Computes the state after token i of a block, `to` from `from` [keys, block]. v: its values;
// correction: a_i^T S. Writes y to `out`, and returns the correction of the next token.
template <Correction kind, typename In, typename T>
HWY_INLINE Row<T> advance(const Tokens<In>& tokens,
                          std::int64_t keys,
                          std::int64_t i,
                          const Row<T>& v,
                          const Row<T>& correction,
                          const T* from,
                          T* to,
                          T* out) {
  const T* const q = tokens.query + i * keys;
  const T* const w = tokens.decay + i * keys;
  const T* const k = tokens.written + i * keys;
  const T* const b = tokens.b_term + i * keys;
  const T* const a = tokens.a_term + (i + 1) * keys;
  const Row<T> u = written_row<kind>(v, correction);
  Row<T> y = Row<T>::zero(), next = Row<T>::zero();
  for (std::int64_t c = 0; c < keys; ++c) {
    Row<T> s = Row<T>::load(from + c * block<T>).times(w[c]).plus(k[c], u);
    if constexpr (kind == Correction::given) s = s.plus(b[c], correction);
    s.store(to + c * block<T>);
    if (out != nullptr) y = y.plus(q[c], s);
    if constexpr (kind != Correction::none) next = next.plus(a[c], s);
  }
  if (out != nullptr) y.store(out);
  return next;
}

// Returns a^T S.
template <typename T>
HWY_INLINE Row<T> product(const T* a, std::int64_t keys, const T* state) {
  Row<T> sum = Row<T>::zero();
  for (std::int64_t c = 0; c < keys; ++c) sum = sum.plus(a[c], Row<T>::load(state + c * block<T>));
  return sum;
}

// Copies between a state in blocks and one of a tensor; null: zero.
template <typename In, typename T>
void read_state(const Problem<In>& p, const T* from, T* to) {
  std::fill_n(to, p.state, T{});
  if (from == nullptr) return;
  for (std::int64_t c = 0; c < p.keys; ++c)
    for (std::int64_t v = 0; v < p.values; ++v)
      to[(v / block<T> * p.keys + c) * block<T> + v % block<T>] = from[c * p.values + v];
}
template <typename In, typename T>
void write_state(const Problem<In>& p, const T* from, T* to) {
  for (std::int64_t c = 0; c < p.keys; ++c)
    for (std::int64_t v = 0; v < p.values; ++v)
      to[c * p.values + v] = from[(v / block<T> * p.keys + c) * block<T> + v % block<T>];
}
// The state of a head in a tensor [batch, heads, keys, values], or of a checkpoint.
template <typename T, typename In>
T* state_of(const Problem<In>& p, const Tensor& x, std::int64_t head, std::int64_t segment = 0) {
  if (!x.defined()) return nullptr;
  return x.data<T>() + (segment * p.batch * p.heads + head) * p.keys * p.values;
}

template <typename In, Correction kind>
class Forward {
 public:
  using T = Accumulator<In>;

  explicit Forward(const Problem<In>& p)
      : p_(p),
        tokens_(p),
        state_(static_cast<std::size_t>(p.state)),
        value_(static_cast<std::size_t>(tile * p.blocks * block<T>)),
        out_(value_.size()) {}

  void run(std::int64_t head) {
    read_state(p_, state_of<T>(p_, p_.call.initial, head), state_.data());
    for (std::int64_t begin = 0; begin < p_.time; begin += tile) {
      if (begin % recurrence_segment == 0 && p_.call.checkpoints.defined())
        write_state(p_,
                    state_.data(),
                    state_of<T>(p_, p_.call.checkpoints, head, begin / recurrence_segment));
      const std::int64_t count = std::min(tile, p_.time - begin);
      tokens_.load(head / p_.heads, head % p_.heads, begin, count);
      tokens_.load_values(p_.call.value, count, value_.data());
      for (std::int64_t i = 0; i < p_.blocks; ++i) run_block(i, count);
      write_out(count);
    }
    if (p_.call.final_state.defined())
      write_state(p_, state_.data(), state_of<T>(p_, p_.call.final_state, head));
  }

 private:
  void run_block(std::int64_t i, std::int64_t count) {
    T* const state = state_.data() + i * p_.keys * block<T>;
    const std::int64_t width = p_.blocks * block<T>;
    Row<T> correction = Row<T>::zero();
    if constexpr (kind != Correction::none) correction = product(tokens_.a_term, p_.keys, state);
    for (std::int64_t t = 0; t < count; ++t) {
      if (tokens_.starts(t)) {
        std::fill_n(state, p_.keys * block<T>, T{});
        correction = Row<T>::zero();
      }
      const std::int64_t at = t * width + i * block<T>;
      correction = advance<kind>(tokens_,
                                 p_.keys,
                                 t,
                                 Row<T>::load(value_.data() + at),
                                 correction,
                                 state,
                                 state,
                                 out_.data() + at);
    }
  }
  void write_out(std::int64_t count) {
    const std::int64_t width = p_.blocks * block<T>;
    for (std::int64_t t = 0; t < count; ++t) {
      In* const to = p_.call.out.template data<In>() + tokens_.place(t) * p_.values;
      for (std::int64_t c = 0; c < p_.values; ++c)
        put(to[c], out_[static_cast<std::size_t>(t * width + c)]);
    }
  }

  const Problem<In>& p_;
  Tokens<In> tokens_;
  std::vector<T> state_, value_, out_;
};

template <typename In, Correction kind>
class Backward {
 public:
  using T = Accumulator<In>;

  Backward(const Problem<In>& p, const GatedRecurrenceGradient& call)
      : p_(p),
        call_(call),
        tokens_(p),
        has_channel_gates_(p.call.has_channel_gates()),
        gradient_(size(p.state)),
        tile_states_(size(recurrence_segment / tile * p.state)),
        states_(size((tile + 1) * p.keys * block<T>)),
        corrections_(size(tile * block<T>)),
        zero_(size(p.keys * block<T>)),
        value_(size(tile * p.blocks * block<T>)),
        dout_(value_.size()),
        dvalue_(value_.size()),
        rows_(size(5 * tile * p.keys)) {}

  void run(std::int64_t head) {
    b_ = head / p_.heads;
    h_ = head % p_.heads;
    read_state(p_, state_of<T>(p_, call_.dfinal, head), gradient_.data());
    for (std::int64_t segment = p_.call.segments() - 1; segment >= 0; --segment) {
      const std::int64_t begin = segment * recurrence_segment;
      const std::int64_t end = std::min(begin + recurrence_segment, p_.time);
      compute_tile_states(head, segment, begin, end);
      for (std::int64_t first = begin + (end - 1 - begin) / tile * tile; first >= begin;
           first -= tile)
        run_tile(first, std::min(tile, end - first), (first - begin) / tile);
    }
    if (call_.dinitial.defined())
      write_state(p_, gradient_.data(), state_of<T>(p_, call_.dinitial, head));
  }

 private:
  static std::size_t size(std::int64_t elements) { return static_cast<std::size_t>(elements); }

  void load(std::int64_t begin, std::int64_t count) {
    tokens_.load(b_, h_, begin, count);
    tokens_.load_values(p_.call.value, count, value_.data());
  }
  T* tile_state(std::int64_t index, std::int64_t i) {
    return tile_states_.data() + index * p_.state + i * p_.keys * block<T>;
  }
  Row<T> value_at(const std::vector<T>& x, std::int64_t t, std::int64_t i) const {
    return Row<T>::load(x.data() + (t * p_.blocks + i) * block<T>);
  }
  Row<T> first_correction(const T* state) const {
    if constexpr (kind != Correction::none) return product(tokens_.a_term, p_.keys, state);
    return Row<T>::zero();
  }
  // Computes the state of block i after token t; returns the next correction.
  Row<T> advance_block(
      std::int64_t t, std::int64_t i, const Row<T>& correction, const T* from, T* to) const {
    return advance<kind>(tokens_,
                         p_.keys,
                         t,
                         value_at(value_, t, i),
                         correction,
                         from,
                         to,
                         static_cast<T*>(nullptr));
  }

  // Computes the state before each tile of a segment.
  void compute_tile_states(std::int64_t head,
                           std::int64_t segment,
                           std::int64_t begin,
                           std::int64_t end) {
    read_state(p_, state_of<T>(p_, p_.call.checkpoints, head, segment), tile_state(0, 0));
    for (std::int64_t first = begin; first + tile < end; first += tile) {
      load(first, tile);
      const std::int64_t index = (first - begin) / tile;
      for (std::int64_t i = 0; i < p_.blocks; ++i) {
        T* const to = tile_state(index + 1, i);
        const T* from = tile_state(index, i);
        Row<T> correction = first_correction(from);
        for (std::int64_t t = 0; t < tile; ++t) {
          if (tokens_.starts(t)) {
            from = zero_.data();
            correction = Row<T>::zero();
          }
          correction = advance_block(t, i, correction, from, to);
          from = to;
        }
      }
    }
  }

  void run_tile(std::int64_t first, std::int64_t count, std::int64_t index) {
    load(first, count);
    tokens_.load_values(call_.dout, count, dout_.data());
    std::ranges::fill(rows_, T{});
    for (std::int64_t i = 0; i < p_.blocks; ++i) {
      compute_states(index, i, count);
      for (std::int64_t t = count - 1; t >= 0; --t) run_token(t, i);
    }
    for (std::int64_t t = 0; t < count; ++t) write_token(t);
  }

  // Computes the states of a block before each token of a tile and after the last one.
  void compute_states(std::int64_t index, std::int64_t i, std::int64_t count) {
    std::copy_n(tile_state(index, i), p_.keys * block<T>, states_.data());
    Row<T> correction = first_correction(states_.data());
    for (std::int64_t t = 0; t < count; ++t) {
      const bool starts = tokens_.starts(t);
      if (starts) correction = Row<T>::zero();
      correction.store(corrections_.data() + t * block<T>);
      correction =
          advance_block(t, i, correction, starts ? zero_.data() : state_at(t), state_at(t + 1));
    }
  }
  T* state_at(std::int64_t t) { return states_.data() + t * p_.keys * block<T>; }

  // Gradients of a token, [keys]. By the delta rule, dwritten is that of the written errors.
  T* row(std::int64_t part, std::int64_t t) { return rows_.data() + (part * tile + t) * p_.keys; }
  T* dquery(std::int64_t t) { return row(0, t); }
  T* dwritten(std::int64_t t) { return row(1, t); }
  T* db_term(std::int64_t t) { return row(2, t); }
  T* da_term(std::int64_t t) { return row(3, t); }
  T* ddecay(std::int64_t t) { return row(4, t); }  // of the log; of a head's gate: in element 0

  // Adds what block i contributes to the gradients of token t.
  void run_token(std::int64_t t, std::int64_t i) {
    const std::int64_t keys = p_.keys;
    T* const d = gradient_.data() + i * keys * block<T>;
    const T* const after = state_at(t + 1);
    const Row<T> dy = value_at(dout_, t, i);
    const Row<T> correction = Row<T>::load(corrections_.data() + t * block<T>);
    const Row<T> u = written_row<kind>(value_at(value_, t, i), correction);
    const T *const q = tokens_.query + t * keys, *const k = tokens_.written + t * keys;
    const T* const b = tokens_.b_term + t * keys;
    T *const dq = dquery(t), *const dk = dwritten(t), *const db = db_term(t);
    Row<T> dv = Row<T>::zero(), dcorrection = Row<T>::zero();
    for_row_groups(keys, [&](std::int64_t first, auto size) HWY_ATTR {
      std::array<Vector<T>, size()> of_query, of_written, of_b_term;
      for (std::size_t r = 0; r < size(); ++r) {
        const std::int64_t c = first + static_cast<std::int64_t>(r);
        const Row<T> s = Row<T>::load(d + c * block<T>).plus(q[c], dy);
        s.store(d + c * block<T>);
        of_query[r] = Row<T>::load(after + c * block<T>).products(dy);
        of_written[r] = s.products(u);
        dv = dv.plus(k[c], s);
        if constexpr (kind == Correction::given) {
          of_b_term[r] = s.products(correction);
          dcorrection = dcorrection.plus(b[c], s);
        }
      }
      add_sums(of_query, dq + first);
      add_sums(of_written, dk + first);
      if constexpr (kind == Correction::given) add_sums(of_b_term, db + first);
    });
    dv.store(dvalue_.data() + (t * p_.blocks + i) * block<T>);
    if constexpr (kind == Correction::delta) dcorrection = dcorrection.minus(dv);
    if (tokens_.starts(t))
      std::fill_n(d, keys * block<T>, T{});
    else if (has_channel_gates_)
      pass_on<true>(t, d, dcorrection);
    else
      pass_on<false>(t, d, dcorrection);
  }
  // Replaces the gradient of the state after token t by that of the state before it.
  template <bool by_channel>
  void pass_on(std::int64_t t, T* d, const Row<T>& dcorrection) {
    const std::int64_t keys = p_.keys;
    const T* const before = state_at(t);
    const T *const w = tokens_.decay + t * keys, *const a = tokens_.a_term + t * keys;
    T *const da = da_term(t), *const dg = ddecay(t);
    Row<T> sum = Row<T>::zero();
    for_row_groups(keys, [&](std::int64_t first, auto size) HWY_ATTR {
      std::array<Vector<T>, size()> of_decay, of_a_term;
      for (std::size_t r = 0; r < size(); ++r) {
        const std::int64_t c = first + static_cast<std::int64_t>(r);
        Row<T> s = Row<T>::load(d + c * block<T>).times(w[c]);
        const Row<T> old = Row<T>::load(before + c * block<T>);
        if constexpr (by_channel)
          of_decay[r] = s.products(old);
        else
          sum = sum.plus_product(s, old);
        if constexpr (kind != Correction::none) {
          of_a_term[r] = old.products(dcorrection);
          s = s.plus(a[c], dcorrection);
        }
        s.store(d + c * block<T>);
      }
      if constexpr (by_channel) add_sums(of_decay, dg + first);
      if constexpr (kind != Correction::none) add_sums(of_a_term, da + first);
    });
    if constexpr (!by_channel) add_sums(std::array<Vector<T>, 1>{sum.sum()}, dg);
  }

  // Writes the gradients of a token in the terms of the call.
  void write_token(std::int64_t t) {
    const std::int64_t keys = p_.keys, at = tokens_.place(t);
    const auto write = [&](const Tensor& to, double factor, const T* of) {
      if (!to.defined()) return;
      In* const out = to.data<In>() + at * keys;
      for (std::int64_t c = 0; c < keys; ++c) put(out[c], static_cast<T>(factor) * of[c]);
    };
    write(call_.dquery, p_.call.scale, dquery(t));
    T *const dk = dwritten(t), *const dg = ddecay(t);
    if constexpr (kind == Correction::delta) {
      const T step = tokens_.beta(t);
      const T* const k = tokens_.key + t * keys;
      const T* const w = tokens_.decay + t * keys;
      const T* const da = da_term(t);
      T dstep = 0, gates = 0;
      for (std::int64_t c = 0; c < keys; ++c) {
        const T dgate = da[c] * w[c] * k[c];
        dstep += dk[c] * k[c];
        gates += dgate;
        dk[c] = step * dk[c] + w[c] * da[c];
        if (has_channel_gates_) dg[c] += dgate;
      }
      if (!has_channel_gates_) dg[0] += gates;
      if (call_.dbeta.defined()) call_.dbeta.data<T>()[at] = dstep;
    } else {
      write(call_.da, 1, da_term(t));
      write(call_.db, 1, db_term(t));
    }
    write(call_.dkey, 1, dk);
    if (call_.dlog_decay.defined()) {
      T* const to = call_.dlog_decay.data<T>();
      if (has_channel_gates_)
        std::copy_n(dg, keys, to + at * keys);
      else
        to[at] = dg[0];
    }
    if (!call_.dvalue.defined()) return;
    In* const out = call_.dvalue.data<In>() + at * p_.values;
    const T* const of = dvalue_.data() + t * p_.blocks * block<T>;
    for (std::int64_t c = 0; c < p_.values; ++c) put(out[c], of[c]);
  }

  const Problem<In>& p_;
  const GatedRecurrenceGradient& call_;
  Tokens<In> tokens_;
  bool has_channel_gates_;
  std::int64_t b_ = 0, h_ = 0;
  std::vector<T> gradient_;     // of the state, in blocks
  std::vector<T> tile_states_;  // before each tile of a segment
  std::vector<T> states_;       // of a block, before each token of a tile and after the last one
  std::vector<T> corrections_;  // a^T S of a block, for each token of a tile
  std::vector<T> zero_;
  std::vector<T> value_, dout_, dvalue_;  // [tile, blocks, block]
  std::vector<T> rows_;                   // gradients of a tile, see `row`
};

// Calls work.run(head) for every head of every batch row, with one `work` per thread.
template <typename Make>
void for_heads(std::int64_t heads, const Make& make) {
#pragma omp parallel if (heads > 1)
  {
    auto work = make();
#pragma omp for schedule(dynamic)
    for (std::int64_t head = 0; head < heads; ++head) work.run(head);
  }
}

// Calls f(TypeTag<In>, kind) for a call; kind() is its correction.
template <typename F>
void dispatch(const GatedRecurrence& call, const F& f) {
  with_floating_type(call.query.dtype(), [&](auto tag) {
    if (call.beta.defined())
      f(tag, std::integral_constant<Correction, Correction::delta>());
    else if (call.a.defined())
      f(tag, std::integral_constant<Correction, Correction::given>());
    else
      f(tag, std::integral_constant<Correction, Correction::none>());
  });
}

}  // namespace
}  // namespace recurrence_cpu

void gated_recurrence(Cpu cpu, const GatedRecurrence& call) {
  using namespace recurrence_cpu;
  check_forward(call);
  if (cpu.state->is_meta()) return;
  dispatch(call, [&]<typename In>(TypeTag<In>, auto kind) {
    const Problem<In> p(call);
    for_heads(p.batch * p.heads, [&] { return Forward<In, kind()>(p); });
  });
}

void gated_recurrence_backward(Cpu cpu, const GatedRecurrenceGradient& call) {
  using namespace recurrence_cpu;
  check(call);
  if (cpu.state->is_meta()) return;
  dispatch(call.forward, [&]<typename In>(TypeTag<In>, auto kind) {
    const Problem<In> p(call.forward);
    for_heads(p.batch * p.heads, [&] { return Backward<In, kind()>(p, call); });
  });
}

}  // namespace longspan
HWY_AFTER_NAMESPACE();
