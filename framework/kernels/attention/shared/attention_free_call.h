// Positions and sums of a call of attention-free mixing, for its kernels.
#pragma once

#include <cmath>

#include "framework/kernels/attention/attention_free.h"
#include "framework/kernels/element.h"
#include "framework/kernels/vector_math.h"

namespace longspan {

// Below every exponent. Finite, so that differences are not NaN.
template <typename A>
constexpr A lowest_exponent = A{-1e30};

// Adds terms relative to e^x, u of the values and z of the weights, to sums relative to e^top.
template <typename A>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline void add_terms(
    A& top, A& u, A& z, A x, A of_u, A of_z) {
  const A larger = x > top ? x : top;
  const A old = fast_exp(top - larger), now = fast_exp(x - larger);
  u = u * old + now * of_u;
  z = z * old + now * of_z;
  top = larger;
}

// Writes the mean and its log_sum from sums relative to e^top; 0 without visible keys.
template <typename T, typename A>
LONGSPAN_HOST_DEVICE inline void write_mean(A top, A u, A z, T& out, A& log_sum) {
  const bool sees = z != A{0};  // also NaN
  put(out, sees ? u / z : A{0});
  log_sum = sees ? top + std::log(z) : -lowest_exponent<A>;
}

// Pointers and positions of a call.
template <typename T>
struct AftCall {
  using A = Accumulator<T>;
  std::int64_t keys, queries, channels, query_begin, window, columns;
  bool causal, banded;
  const T *key, *value, *out;
  const A *bias, *hidden, *log_sum;
  const std::int64_t* lookback;

  explicit AftCall(const AttentionFree& call)
      : keys(call.key.shape()[1]),
        queries(call.queries()),
        channels(call.key.shape()[2]),
        query_begin(call.query_begin),
        window(call.window),
        columns(call.bias.defined() ? call.bias.shape()[1] : 0),
        causal(call.causal),
        banded(call.banded),
        key(call.key.data<T>()),
        value(call.value.data<T>()),
        out(elements_or_null<T>(call.out)),
        bias(elements_or_null<A>(call.bias)),
        hidden(elements_or_null<A>(call.hidden)),
        log_sum(call.log_sum.data<A>()),
        lookback(elements_or_null<std::int64_t>(call.max_lookback)) {}

  // Whether some pair is farther apart than the window.
  bool has_far() const { return window < keys; }
  LONGSPAN_HOST_DEVICE bool is_hidden(std::int64_t b, std::int64_t j) const {
    return hidden != nullptr && hidden[b * keys + j] < 0;
  }
  // First key of query i's document, -1 if that starts before the keys.
  LONGSPAN_HOST_DEVICE std::int64_t start(std::int64_t b, std::int64_t i) const {
    if (lookback == nullptr) return -1;
    const std::int64_t begin = query_begin + i - lookback[b * queries + i];
    return begin < 0 ? -1 : begin;
  }
  // Distance from which later keys are far.
  LONGSPAN_HOST_DEVICE std::int64_t later() const { return window > 1 ? window : 1; }
  LONGSPAN_HOST_DEVICE std::int64_t first_near(std::int64_t b, std::int64_t i) const {
    const std::int64_t near = query_begin + i - window + 1, begin = start(b, i);
    const std::int64_t least = begin > 0 ? begin : 0;
    return near > least ? near : least;
  }
  LONGSPAN_HOST_DEVICE std::int64_t end_near(std::int64_t i) const {
    const std::int64_t position = query_begin + i;
    if (window == 0) return 0;
    if (causal) return position + 1;
    return position + window < keys ? position + window : keys;
  }
  // The bias of query i and key j is bias[bias_base(b, i) + j].
  LONGSPAN_HOST_DEVICE std::int64_t bias_base(std::int64_t b, std::int64_t i) const {
    const std::int64_t position = query_begin + i, begin = start(b, i);
    const std::int64_t least = begin > 0 ? begin : 0;
    return (position - least) * columns + (banded ? window - 1 - position : -least);
  }
};

}  // namespace longspan
