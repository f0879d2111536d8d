// Additive attention.
#include "framework/kernels/attention/additive.h"

#include <cmath>
#include <limits>

#include "framework/kernels/attention/shared/pair_math.h"
#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

constexpr int widest = widest_additive_head;

template <typename T>
struct View {
  using A = Accumulator<T>;
  std::int64_t batch, time, keys, heads, dim, value_dim, taps;
  const T *query, *key, *value;
  const A *weight, *tap, *before;
  const std::int64_t* length;
  const std::uint8_t* padding;
  bool causal;
  std::int64_t query_begin, key_begin;
  bool drops;
  double rate;
  Random random;
  tile_attention::DropoutIndex index;
  T* out;
  A *log_sum_exp, *probabilities;

  explicit View(const AdditiveAttention& call)
      : batch(call.query.shape()[0]),
        time(call.query.shape()[1]),
        keys(call.key.shape()[1]),
        heads(call.query.shape()[2]),
        dim(call.query.shape()[3]),
        value_dim(call.value.shape()[3]),
        taps(call.kernel_size.defined() ? call.kernel_size.shape()[1] : 0),
        query(call.query.data<T>()),
        key(call.key.data<T>()),
        value(call.value.data<T>()),
        weight(call.weight.data<A>()),
        tap(elements_or_null<A>(call.kernel_size)),
        before(elements_or_null<A>(call.before)),
        length(elements_or_null<std::int64_t>(call.length)),
        padding(elements_or_null<std::uint8_t>(call.padding)),
        causal(call.causal),
        query_begin(call.query_begin),
        key_begin(call.key_begin),
        drops(call.dropout && call.dropout->rate > 0),
        rate(drops ? call.dropout->rate : 0),
        random(drops ? call.dropout->random : Random(0)),
        index(call.dropout.value_or(AttentionDropout{.random = Random(0)}), time, keys, heads),
        out(call.out.data<T>()),
        log_sum_exp(elements_or_null<A>(call.log_sum_exp)),
        probabilities(elements_or_null<A>(call.probabilities)) {}

  LONGSPAN_HOST_DEVICE std::int64_t query_at(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return (b * time + i) * heads + h;
  }
  LONGSPAN_HOST_DEVICE std::int64_t key_at(std::int64_t b, std::int64_t j, std::int64_t h) const {
    return (b * keys + j) * heads + h;
  }
  LONGSPAN_HOST_DEVICE bool sees(std::int64_t b, std::int64_t i, std::int64_t j) const {
    if (causal && key_begin + j > query_begin + i) return false;
    if (length != nullptr && key_begin + j >= length[b]) return false;
    return padding == nullptr || padding[b * keys + j] == 0;
  }
  // Dropout factor of a pair's probability.
  LONGSPAN_HOST_DEVICE A kept(std::int64_t b,
                              std::int64_t h,
                              std::int64_t i,
                              std::int64_t j) const {
    if (!drops) return A{1};
    const bool is = static_cast<double>(random.uniform_at(index.of(b, h, i, j))) >= rate;
    return is ? static_cast<A>(1 / (1 - rate)) : A{0};
  }
  // Probabilities of the query before i; nullptr: all 0.
  LONGSPAN_HOST_DEVICE const A* looked(std::int64_t b, std::int64_t h, std::int64_t i) const {
    if (taps == 0) return nullptr;
    if (i > 0) return probabilities + ((b * heads + h) * time + i - 1) * keys;
    return before == nullptr ? nullptr : before + (b * heads + h) * keys;
  }

  // Writes tanh of a pair's sum to `tangent`, by feature, and returns the score.
  LONGSPAN_HOST_DEVICE A score(std::int64_t b,
                               std::int64_t h,
                               std::int64_t i,
                               std::int64_t j,
                               const A* last,
                               A* tangent) const {
    const T* const q = query + query_at(b, i, h) * dim;
    const T* const k = key + key_at(b, j, h) * dim;
    for (std::int64_t d = 0; d < dim; ++d) tangent[d] = wide(q[d]) + wide(k[d]);
    for (std::int64_t r = 0; last != nullptr && r < taps; ++r) {
      const std::int64_t place = j + r - taps / 2;
      if (place < 0 || place >= keys) continue;
      const A much = last[place];
      const A* const by = tap + (h * taps + r) * dim;
      for (std::int64_t d = 0; d < dim; ++d) tangent[d] += much * by[d];
    }
    const A* const w = weight + h * dim;
    A sum = 0;
#ifndef __CUDACC__
#pragma omp simd reduction(+ : sum)
#endif
    for (std::int64_t d = 0; d < dim; ++d) {
      tangent[d] = tanh(tangent[d]);
      sum += w[d] * tangent[d];
    }
    return sum;
  }

  LONGSPAN_HOST_DEVICE A dot_value(const T* dout,
                                   std::int64_t b,
                                   std::int64_t j,
                                   std::int64_t h) const {
    const T* const v = value + key_at(b, j, h) * value_dim;
    A sum = 0;
    for (std::int64_t d = 0; d < value_dim; ++d) sum += wide(dout[d]) * wide(v[d]);
    return sum;
  }
};

template <typename A>
LONGSPAN_HOST_DEVICE void clear(A* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = A{0};
}

// One query and head, without taps: an online softmax over the keys.
template <typename T>
struct Look {
  using A = Accumulator<T>;
  View<T> view;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t h = row % view.heads, i = row / view.heads % view.time;
    const std::int64_t b = row / view.heads / view.time;
    A tangent[widest], sum[widest];
    clear(sum, view.value_dim);
    A largest = -std::numeric_limits<A>::infinity(), total = 0;
    for (std::int64_t j = 0; j < view.keys; ++j) {
      if (!view.sees(b, i, j)) continue;
      const A score = view.score(b, h, i, j, nullptr, tangent);
      if (score > largest) {
        const A less = total == A{0} ? A{0} : fast_exp(largest - score);
        total *= less;
        for (std::int64_t d = 0; d < view.value_dim; ++d) sum[d] *= less;
        largest = score;
      }
      const A power = fast_exp(score - largest), much = power * view.kept(b, h, i, j);
      total += power;
      const T* const v = view.value + view.key_at(b, j, h) * view.value_dim;
      for (std::int64_t d = 0; d < view.value_dim; ++d) sum[d] += much * wide(v[d]);
    }
    T* const to = view.out + row * view.value_dim;
    for (std::int64_t d = 0; d < view.value_dim; ++d)
      put(to[d], total == A{0} ? A{0} : sum[d] / total);
    view.log_sum_exp[(b * view.heads + h) * view.time + i] =
        total == A{0} ? -std::numeric_limits<A>::infinity() : largest + std::log(total);
  }
};

template <typename T>
struct Gradients {
  using A = Accumulator<T>;
  View<T> view;
  const T* dout;
  A *scratch, *dquery, *dkey, *dvalue, *dweight, *dtaps;

  explicit Gradients(const AdditiveAttentionGradient& call)
      : view(call.forward),
        dout(call.dout.data<T>()),
        scratch(call.scratch.data<A>()),
        dquery(call.dquery.data<A>()),
        dkey(call.dkey.data<A>()),
        dvalue(call.dvalue.data<A>()),
        dweight(call.dweight.data<A>()),
        dtaps(elements_or_null<A>(call.dtaps)) {}
};

// One query and head: dquery and its contribution to dweight. Also saves the mean of its
// probability gradients, for the keys.
template <typename T>
struct LookBack {
  using A = Accumulator<T>;
  Gradients<T> of;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const View<T>& view = of.view;
    const std::int64_t h = row % view.heads, i = row / view.heads % view.time;
    const std::int64_t b = row / view.heads / view.time;
    const T *const above = of.dout + row * view.value_dim, *const out =
                                                               view.out + row * view.value_dim;
    const std::int64_t place = (b * view.heads + h) * view.time + i;
    A* const dq = of.dquery + row * view.dim;
    A* const dw = of.dweight + row * view.dim;
    clear(dq, view.dim);
    clear(dw, view.dim);
    A mean = 0;
    for (std::int64_t d = 0; d < view.value_dim; ++d) mean += wide(above[d]) * wide(out[d]);
    of.scratch[place] = mean;
    const A normal = view.log_sum_exp[place];
    const A* const w = view.weight + h * view.dim;
    A tangent[widest];
    for (std::int64_t j = 0; j < view.keys; ++j) {
      if (!view.sees(b, i, j)) continue;
      const A p = fast_exp(view.score(b, h, i, j, nullptr, tangent) - normal);
      const A change = p * (view.kept(b, h, i, j) * view.dot_value(above, b, j, h) - mean);
      for (std::int64_t d = 0; d < view.dim; ++d) {
        dq[d] += change * w[d] * (A{1} - tangent[d] * tangent[d]);
        dw[d] += change * tangent[d];
      }
    }
  }
};

// One key and head, after all queries.
template <typename T>
struct SeenBack {
  using A = Accumulator<T>;
  Gradients<T> of;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const View<T>& view = of.view;
    const std::int64_t h = row % view.heads, j = row / view.heads % view.keys;
    const std::int64_t b = row / view.heads / view.keys;
    A* const dk = of.dkey + row * view.dim;
    A* const dv = of.dvalue + row * view.value_dim;
    clear(dk, view.dim);
    clear(dv, view.value_dim);
    const A* const w = view.weight + h * view.dim;
    A tangent[widest];
    for (std::int64_t i = 0; i < view.time; ++i) {
      if (!view.sees(b, i, j)) continue;
      const std::int64_t place = (b * view.heads + h) * view.time + i;
      const T* const above = of.dout + view.query_at(b, i, h) * view.value_dim;
      const A p = fast_exp(view.score(b, h, i, j, nullptr, tangent) - view.log_sum_exp[place]);
      const A keep = view.kept(b, h, i, j);
      const A change = p * (keep * view.dot_value(above, b, j, h) - of.scratch[place]);
      for (std::int64_t d = 0; d < view.dim; ++d)
        dk[d] += change * w[d] * (A{1} - tangent[d] * tangent[d]);
      for (std::int64_t d = 0; d < view.value_dim; ++d) dv[d] += keep * p * wide(above[d]);
    }
  }
};

// One head of a batch row, with taps: processes queries sequentially.
template <typename T>
struct Walk {
  using A = Accumulator<T>;
  View<T> view;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    for (std::int64_t i = 0; i < view.time; ++i) step(row / view.heads, row % view.heads, i);
  }
  LONGSPAN_HOST_DEVICE void step(std::int64_t b, std::int64_t h, std::int64_t i) const {
    A* const p = view.probabilities + ((b * view.heads + h) * view.time + i) * view.keys;
    const A* const last = view.looked(b, h, i);
    A tangent[widest], sum[widest];
    A largest = -std::numeric_limits<A>::infinity(), total = 0;
    for (std::int64_t j = 0; j < view.keys; ++j)
      if (view.sees(b, i, j)) {
        p[j] = view.score(b, h, i, j, last, tangent);
        if (p[j] > largest) largest = p[j];
      }
    for (std::int64_t j = 0; j < view.keys; ++j) {
      p[j] = view.sees(b, i, j) ? fast_exp(p[j] - largest) : A{0};
      total += p[j];
    }
    clear(sum, view.value_dim);
    for (std::int64_t j = 0; j < view.keys; ++j) {
      if (p[j] == A{0}) continue;
      p[j] /= total;
      const A much = p[j] * view.kept(b, h, i, j);
      const T* const v = view.value + view.key_at(b, j, h) * view.value_dim;
      for (std::int64_t d = 0; d < view.value_dim; ++d) sum[d] += much * wide(v[d]);
    }
    T* const to = view.out + view.query_at(b, i, h) * view.value_dim;
    for (std::int64_t d = 0; d < view.value_dim; ++d) put(to[d], sum[d]);
  }
};

// Backward pass of the above, from the last query to the first. The first of two rows of scratch is
// the gradient that query i + 1 passes to the probabilities of query i.
template <typename T>
struct WalkBack {
  using A = Accumulator<T>;
  Gradients<T> of;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const View<T>& view = of.view;
    const std::int64_t b = row / view.heads, h = row % view.heads;
    for (std::int64_t j = 0; j < view.keys; ++j) {
      clear(of.dkey + view.key_at(b, j, h) * view.dim, view.dim);
      clear(of.dvalue + view.key_at(b, j, h) * view.value_dim, view.value_dim);
    }
    clear(of.dweight + row * view.dim, view.dim);
    clear(of.dtaps + row * view.taps * view.dim, view.taps * view.dim);
    A *after = of.scratch + row * 2 * view.keys, *now = after + view.keys;
    clear(after, view.keys);
    for (std::int64_t i = view.time - 1; i >= 0; --i) {
      step(b, h, i, after, now);
      A* const swapped = after;
      after = now;
      now = swapped;
    }
  }
  // after: gradient of this query's probabilities from the next query; overwritten with the
  // gradient of its scores. earlier: gradient of the previous query's probabilities, overwritten.
  LONGSPAN_HOST_DEVICE void step(
      std::int64_t b, std::int64_t h, std::int64_t i, A* after, A* earlier) const {
    const View<T>& view = of.view;
    const A* const p = view.probabilities + ((b * view.heads + h) * view.time + i) * view.keys;
    const T* const above = of.dout + view.query_at(b, i, h) * view.value_dim;
    A mean = 0;
    for (std::int64_t j = 0; j < view.keys; ++j) {
      const A keep = view.kept(b, h, i, j);
      if (p[j] == A{0}) continue;
      A* const dv = of.dvalue + view.key_at(b, j, h) * view.value_dim;
      for (std::int64_t d = 0; d < view.value_dim; ++d) dv[d] += keep * p[j] * wide(above[d]);
      after[j] += keep * view.dot_value(above, b, j, h);
      mean += p[j] * after[j];
    }
    A* const dq = of.dquery + view.query_at(b, i, h) * view.dim;
    clear(dq, view.dim);
    clear(earlier, view.keys);
    for (std::int64_t j = 0; j < view.keys; ++j)
      if (p[j] != A{0}) pair(b, h, i, j, p[j] * (after[j] - mean), dq, earlier);
  }
  LONGSPAN_HOST_DEVICE void pair(std::int64_t b,
                                 std::int64_t h,
                                 std::int64_t i,
                                 std::int64_t j,
                                 A change,
                                 A* dq,
                                 A* earlier) const {
    const View<T>& view = of.view;
    const A* const last = view.looked(b, h, i);
    const A* const w = view.weight + h * view.dim;
    A* const dk = of.dkey + view.key_at(b, j, h) * view.dim;
    A* const dw = of.dweight + (b * view.heads + h) * view.dim;
    A slope[widest];
    view.score(b, h, i, j, last, slope);
    for (std::int64_t d = 0; d < view.dim; ++d) {
      dw[d] += change * slope[d];
      slope[d] = change * w[d] * (A{1} - slope[d] * slope[d]);
      dq[d] += slope[d];
      dk[d] += slope[d];
    }
    for (std::int64_t r = 0; last != nullptr && r < view.taps; ++r) {
      const std::int64_t place = j + r - view.taps / 2;
      if (place < 0 || place >= view.keys) continue;
      const A* const by = view.tap + (h * view.taps + r) * view.dim;
      A* const dby = of.dtaps + ((b * view.heads + h) * view.taps + r) * view.dim;
      for (std::int64_t d = 0; d < view.dim; ++d) {
        dby[d] += slope[d] * last[place];
        earlier[place] += slope[d] * by[d];
      }
    }
  }
};

}  // namespace

void additive_attention(Backend backend, const AdditiveAttention& call) {
  check(call);
  with_floating_type(call.query.dtype(), [&]<typename T>(TypeTag<T>) {
    const View<T> view(call);
    const std::int64_t cost = view.keys * (view.dim + view.value_dim);
    if (view.taps == 0)
      parallel_rows(backend, view.batch * view.time * view.heads, cost, Look<T>{view});
    else
      parallel_rows(backend, view.batch * view.heads, cost * view.time, Walk<T>{view});
  });
}

void additive_attention_backward(Backend backend, const AdditiveAttentionGradient& call) {
  check(call);
  with_floating_type(call.forward.query.dtype(), [&]<typename T>(TypeTag<T>) {
    const Gradients<T> of(call);
    const View<T>& view = of.view;
    const std::int64_t pair = view.dim + view.value_dim;
    if (view.taps > 0) {
      parallel_rows(
          backend, view.batch * view.heads, view.time * view.keys * pair, WalkBack<T>{of});
      return;
    }
    parallel_rows(backend, view.batch * view.time * view.heads, view.keys * pair, LookBack<T>{of});
    parallel_rows(backend, view.batch * view.keys * view.heads, view.time * pair, SeenBack<T>{of});
  });
}

}  // namespace longspan
