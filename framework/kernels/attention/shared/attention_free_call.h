// Positions of a call of attention-free mixing, for its kernels.
#pragma once

#include "framework/kernels/attention/attention_free.h"
#include "framework/kernels/element.h"

namespace longspan {

// Channels that one loop computes together.
#ifdef LONGSPAN_BACKEND_CUDA
constexpr std::int64_t aft_lanes = 1;
#else
constexpr std::int64_t aft_lanes = 16;
#endif

// Below every exponent. Finite, so that differences are not NaN.
template <typename A>
constexpr A lowest_exponent = A{-1e30};

// Pointers and positions of a call. Items are blocks of channels of a batch row or of a token.
template <typename T>
struct AftCall {
  using A = Accumulator<T>;
  std::int64_t keys, queries, channels, blocks, query_begin, window, columns;
  bool causal, banded;
  const T *key, *value, *out;
  const A *bias, *hidden, *log_sum;
  const std::int64_t* lookback;

  explicit AftCall(const AttentionFree& call)
      : keys(call.key.shape()[1]),
        queries(call.queries()),
        channels(call.key.shape()[2]),
        blocks((channels + aft_lanes - 1) / aft_lanes),
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
  LONGSPAN_HOST_DEVICE std::int64_t first(std::int64_t item) const {
    return item % blocks * aft_lanes;
  }
  LONGSPAN_HOST_DEVICE std::int64_t lanes(std::int64_t item) const {
    const std::int64_t left = channels - first(item);
    return left < aft_lanes ? left : aft_lanes;
  }
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
