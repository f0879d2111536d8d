// Helpers of the linear attention kernels: a block computes a part of a head row by row.
#pragma once

#include <algorithm>

#include "framework/kernels/attention/linear_attention.h"
#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/vector_math.h"

namespace longspan::linear_attention_parts {

// Number of parts that fit into kernel arguments.
inline constexpr int max_parts = 64;
struct PartTable {
  std::int64_t begin[max_parts];
  std::int64_t end[max_parts];
  std::int64_t first;  // index of the first part
};

// Extents and pointers of a call; undefined tensors are null.
template <typename T>
struct LinearView {
  using A = Accumulator<T>;
  std::int64_t batch, time, keys, heads, features, values;
  const T *query, *key, *value;
  const A *log_weight, *decay, *before;
  T* out;
  A* divisors;
  A epsilon;
  FeatureMap map;
  Divisor divisor;
  bool causal;

  explicit LinearView(const LinearAttention& call)
      : batch(call.query.shape()[0]),
        time(call.query.shape()[1]),
        keys(call.key.shape()[1]),
        heads(call.query.shape()[2]),
        features(call.query.shape()[3]),
        values(call.value.shape()[3]),
        query(call.query.data<T>()),
        key(call.key.data<T>()),
        value(call.value.data<T>()),
        log_weight(elements_or_null<A>(call.log_weight)),
        decay(elements_or_null<A>(call.decay)),
        before(elements_or_null<A>(call.before)),
        out(elements_or_null<T>(call.out)),
        divisors(elements_or_null<A>(call.divisors)),
        epsilon(static_cast<A>(call.epsilon)),
        map(call.map),
        divisor(call.divisor),
        causal(call.causal) {}

  LONGSPAN_HOST_DEVICE std::int64_t columns() const { return values + 1; }
  std::int64_t state_elements() const { return features * columns(); }
};

// Work item of a block: a part of a head.
struct BlockItem {
  std::int64_t part, b, h, begin, end;

  template <typename T>
  __device__ BlockItem(const LinearView<T>& v, const PartTable& parts) {
    const std::int64_t pairs = v.batch * v.heads, local = blockIdx.x / pairs;
    part = parts.first + local;
    b = blockIdx.x % pairs / v.heads;
    h = blockIdx.x % v.heads;
    begin = parts.begin[local];
    end = parts.end[local];
  }
};

template <typename F>
__device__ void each(std::int64_t count, const F& f) {
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) f(i);
}

// A block's rows in shared memory: `shared_rows` elements.
template <typename T>
struct SharedRows {
  using A = Accumulator<T>;
  A *scratch, *query, *key, *value, *gradient;

  __device__ explicit SharedRows(const LinearView<T>& v)
      : scratch(shared_memory<A>()),
        query(scratch + 16),
        key(query + v.features),
        value(key + v.features),
        gradient(value + v.values + 1) {}
};
template <typename T>
Grid linear_grid(const LinearView<T>& v, std::int64_t parts) {
  using A = Accumulator<T>;
  int threads = warp_size;
  while (threads < 256 && threads < v.columns()) threads *= 2;
  return {
      .blocks = parts * v.batch * v.heads,
      .threads = threads,
      .shared_bytes = static_cast<std::size_t>(16 + 2 * v.features + 2 * v.columns()) * sizeof(A)};
}

template <typename T>
__device__ Accumulator<T> feature(const LinearView<T>& v, T x) {
  using A = Accumulator<T>;
  const A value = wide(x);
  if (v.map != FeatureMap::elu_plus_one) return value;
  return value > 0 ? value + 1 : fast_exp(value);
}
// Derivative of the feature map.
template <typename T>
__device__ Accumulator<T> slope(const LinearView<T>& v, T x) {
  using A = Accumulator<T>;
  if (v.map == FeatureMap::identity) return A{1};
  const A made = feature(v, x);
  if (v.map == FeatureMap::exponential) return made;
  return made < 1 ? made : A{1};
}

template <typename T>
__device__ void read_query(const LinearView<T>& v,
                           const BlockItem& at,
                           std::int64_t row,
                           SharedRows<T>& s) {
  const T* const from = v.query + ((at.b * v.time + row) * v.heads + at.h) * v.features;
  each(v.features, [&](std::int64_t f) { s.query[f] = feature(v, from[f]); });
}
// The weight of the key.
template <typename T>
__device__ Accumulator<T> read_key(const LinearView<T>& v,
                                   const BlockItem& at,
                                   std::int64_t row,
                                   SharedRows<T>& s) {
  using A = Accumulator<T>;
  const std::int64_t place = (at.b * v.keys + row) * v.heads + at.h;
  const A weight = v.log_weight == nullptr ? A{1} : fast_exp(v.log_weight[place]);
  const T* const key = v.key + place * v.features;
  const T* const value = v.value + place * v.values;
  each(v.features,
       [&](std::int64_t f) { s.key[f] = weight == 0 ? A{0} : weight * feature(v, key[f]); });
  each(v.columns(), [&](std::int64_t c) {
    s.value[c] = weight == 0 ? A{0} : c < v.values ? wide(value[c]) : A{1};
  });
  return weight;
}
template <typename T>
__device__ Accumulator<T> decay_of(const LinearView<T>& v, const BlockItem& at, std::int64_t row) {
  using A = Accumulator<T>;
  return v.decay == nullptr ? A{1} : fast_exp(v.decay[(at.b * v.time + row) * v.heads + at.h]);
}
template <typename T>
__device__ const Accumulator<T>* state_at(const LinearView<T>& v,
                                          const Accumulator<T>* states,
                                          const BlockItem& at) {
  if (states == nullptr) return nullptr;
  const std::int64_t part = v.causal ? at.part : 0;
  return states + ((part * v.batch + at.b) * v.heads + at.h) * v.features * (v.values + 1);
}

// Calls f(table, count) for successive groups of parts, each as large as a table permits.
template <typename F>
void for_tables(const Ranges& parts, const F& f) {
  const auto count = static_cast<std::int64_t>(parts.size());
  for (std::int64_t first = 0; first < count; first += max_parts) {
    PartTable table = {};
    table.first = first;
    const std::int64_t here = std::min<std::int64_t>(count - first, max_parts);
    for (std::int64_t i = 0; i < here; ++i) {
      table.begin[i] = parts[static_cast<std::size_t>(first + i)].begin;
      table.end[i] = parts[static_cast<std::size_t>(first + i)].end;
    }
    f(table, here);
  }
}

template <typename T>
Tensor states_of_blocks(const LinearAttention& call, const Ranges& parts, std::int64_t each) {
  const LinearView<T> v(call);
  const std::int64_t most =
      std::min<std::int64_t>(static_cast<std::int64_t>(parts.size()), max_parts);
  return Tensor::empty({most * v.batch * v.heads, each * v.state_elements()},
                       accumulator_of(call.query.dtype()),
                       call.query.device(),
                       MemoryTag::workspace);
}

}  // namespace longspan::linear_attention_parts
