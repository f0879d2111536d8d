// Computations for one pair of a query and a key, shared by the CPU and CUDA kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/core/host_device.h"
#include "framework/kernels/attention/attention.h"

namespace longspan::tile_attention {

// Global indices of probabilities, which determine the dropout mask.
struct DropoutIndex {
  std::int64_t batch_begin, head_begin, heads_total, time_begin, time, keys_begin, keys;
  std::int64_t fold;
  std::int64_t heads;  // of the sequence that the call views

  DropoutIndex(const AttentionDropout& d,
               std::int64_t call_time,
               std::int64_t call_keys,
               std::int64_t call_heads)
      : batch_begin(d.batch_begin),
        head_begin(d.head_begin),
        heads_total(d.heads_total),
        time_begin(d.time_begin),
        time(d.time_total > 0 ? d.time_total : call_time),
        keys_begin(d.keys_begin),
        keys(d.keys_total > 0 ? d.keys_total : call_keys),
        fold(d.fold),
        heads(call_heads / d.fold) {}

  // Index of query i and key j; that of key j + 1 is `fold` greater.
  LONGSPAN_HOST_DEVICE std::uint64_t of(std::int64_t b,
                                        std::int64_t h,
                                        std::int64_t i,
                                        std::int64_t j) const {
    const std::int64_t residue = h / heads;
    const std::int64_t row =
        ((batch_begin + b) * heads_total + head_begin + h % heads) * time + time_begin;
    return static_cast<std::uint64_t>((row + i * fold + residue) * keys + keys_begin + j * fold +
                                      residue);
  }
};

// Whether a pair shares a bucket in a hash round.
struct RoundRule {
  std::int32_t look_back;
  std::uint32_t width;  // look_back + look_ahead
  std::int32_t chunks;  // without wraparound, a number that is never reached

  explicit RoundRule(const LshTerm& hash)
      : look_back(static_cast<std::int32_t>(hash.look_back)),
        width(static_cast<std::uint32_t>(hash.look_back + hash.look_ahead)),
        chunks(static_cast<std::int32_t>(hash.chunks > 0 ? hash.chunks : 1 << 30)) {}

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline bool met(std::int32_t query_chunk,
                                                              std::int32_t key_chunk) const {
    std::int32_t place = key_chunk + (look_back - query_chunk);
    place += place < 0 ? chunks : 0;
    place -= place >= chunks ? chunks : 0;
    return static_cast<std::uint32_t>(place) <= width;
  }
};

// Factor of the soft span z: clamp((ramp + z - x) / ramp, 0, 1).
template <typename T>
struct SoftSpan {
  T ramp;
  T step;  // 1 / ramp
  T first;
  T floor;

  explicit SoftSpan(const SpanTerm& span)
      : ramp(static_cast<T>(span.ramp)),
        step(static_cast<T>(1 / span.ramp)),
        first(static_cast<T>(span.first)),
        floor(static_cast<T>(span.floor)) {}

  // The relative position at which the ramp ends and the factor is 0. A key is inside the span by
  // the difference to its own relative position.
  LONGSPAN_HOST_DEVICE T end(T z) const { return ramp + (z + first); }
  LONGSPAN_HOST_DEVICE T at(T inside) const {
    const T factor = inside * step;
    return factor < T{0} ? T{0} : factor > T{1} ? T{1} : factor;
  }
  // Whether the factor depends on z: on the ramp and, as in the authors' code, at both of its ends
  // (without a floor, pairs at the outer end are masked).
  LONGSPAN_HOST_DEVICE bool is_on_ramp(T inside) const { return inside >= T{0} && inside <= ramp; }
};

// Merges two outputs of one row over disjoint keys.
template <typename T>
struct MergedRow {
  bool seen;  // whether either attends to a key
  T log_sum_exp;
  T rescale;
  T take;

  LONGSPAN_HOST_DEVICE MergedRow(T sum, T part) {
    const T most = sum > part ? sum : part;
    const T least = sum > part ? part : sum;
    seen = most != -std::numeric_limits<T>::infinity();
    log_sum_exp = most + std::log1p(std::exp(least - most));
    rescale = std::exp(sum - log_sum_exp);
    take = std::exp(part - log_sum_exp);
  }
  LONGSPAN_HOST_DEVICE T of(T out, T part) const { return rescale * out + take * part; }
};

}  // namespace longspan::tile_attention
