// Attention-free mixing: sums over far keys by a scan; near keys one by one, or on the CPU by tiles
// if there are many.
#include "framework/kernels/attention/attention_free.h"

#include "framework/kernels/attention/cpu/attention_free_tiles.h"
#include "framework/kernels/attention/shared/attention_free_call.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

// Only the CPU has tiles.
bool by_tiles(const AttentionFree& call) {
  return std::is_same_v<Backend, Cpu> && uses_tiles(call);
}

// Channels that one loop computes together.
#ifdef LONGSPAN_BACKEND_CUDA
constexpr std::int64_t aft_lanes = 1;
#else
constexpr std::int64_t aft_lanes = 16;
#endif

// A call whose items are blocks of channels of a batch row or of a token.
template <typename T>
struct AftBlocks : AftCall<T> {
  std::int64_t blocks;

  explicit AftBlocks(const AttentionFree& call)
      : AftCall<T>(call), blocks((this->channels + aft_lanes - 1) / aft_lanes) {}

  LONGSPAN_HOST_DEVICE std::int64_t first(std::int64_t item) const {
    return item % blocks * aft_lanes;
  }
  LONGSPAN_HOST_DEVICE std::int64_t lanes(std::int64_t item) const {
    const std::int64_t left = this->channels - first(item);
    return left < aft_lanes ? left : aft_lanes;
  }
};

// sum e^x u and sum e^x z over some terms, for a few channels, relative to e^top.
template <typename A>
struct LaneSums {
  A top[aft_lanes] = {}, u[aft_lanes] = {}, z[aft_lanes] = {};

  LONGSPAN_HOST_DEVICE void clear() {
    for (std::int64_t l = 0; l < aft_lanes; ++l) {
      top[l] = lowest_exponent<A>;
      u[l] = z[l] = 0;
    }
  }
  // Adds sums relative to e^x, such as a single term.
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void add(std::int64_t l, A x, A of_u, A of_z) {
    add_terms(top[l], u[l], z[l], x, of_u, of_z);
  }
  // Sums of all channels have the layout [3, channels]; `at` is the first of these channels.
  LONGSPAN_HOST_DEVICE void read(const A* at, std::int64_t channels, std::int64_t count) {
    for (std::int64_t l = 0; l < count; ++l) {
      top[l] = at[l];
      u[l] = at[channels + l];
      z[l] = at[2 * channels + l];
    }
  }
  LONGSPAN_HOST_DEVICE void write(A* at, std::int64_t channels, std::int64_t count) const {
    for (std::int64_t l = 0; l < count; ++l) {
      at[l] = top[l];
      at[channels + l] = u[l];
      at[2 * channels + l] = z[l];
    }
  }
  LONGSPAN_HOST_DEVICE void add_to(A* at, std::int64_t channels, std::int64_t count) const {
    LaneSums sums;
    sums.read(at, channels, count);
    for (std::int64_t l = 0; l < count; ++l) sums.add(l, top[l], u[l], z[l]);
    sums.write(at, channels, count);
  }
};

// Sums over the far keys of each query, [batch, queries, 3, channels]. An item is a block of
// channels of a batch row.
template <typename T>
struct FarKeys {
  using A = Accumulator<T>;
  AftBlocks<T> of;
  const A* initial;
  A *far, *last;

  LONGSPAN_HOST_DEVICE void add(
      LaneSums<A>& sums, std::int64_t b, std::int64_t j, std::int64_t c, std::int64_t count) const {
    if (of.is_hidden(b, j)) return;
    const std::int64_t at = (b * of.keys + j) * of.channels + c;
    const T *const key = of.key + at, *const value = of.value + at;
#pragma omp simd
    for (std::int64_t l = 0; l < count; ++l) sums.add(l, wide(key[l]), wide(value[l]), A{1});
  }
  LONGSPAN_HOST_DEVICE A* place(std::int64_t b, std::int64_t i, std::int64_t c) const {
    return far + (b * of.queries + i) * 3 * of.channels + c;
  }

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t item) const {
    const std::int64_t b = item / of.blocks, c = of.first(item), count = of.lanes(item);
    LaneSums<A> sums;
    sums.clear();
    if (initial != nullptr) sums.read(initial + b * 3 * of.channels + c, of.channels, count);
    std::int64_t next = 0, document = -1;
    for (std::int64_t i = 0; i < of.queries; ++i) {
      const std::int64_t begin = of.start(b, i);
      if (begin > document) {
        sums.clear();
        document = begin;
        next = next > begin ? next : begin;
      }
      for (; next <= of.query_begin + i - of.window; ++next) add(sums, b, next, c, count);
      sums.write(place(b, i, c), of.channels, count);
    }
    if (last != nullptr) sums.write(last + b * 3 * of.channels + c, of.channels, count);
    if (of.causal) return;
    sums.clear();
    next = of.keys - 1;
    for (std::int64_t i = of.queries - 1; i >= 0; --i) {
      for (; next >= i + of.later(); --next) add(sums, b, next, c, count);
      sums.add_to(place(b, i, c), of.channels, count);
    }
  }
};

// An item is a block of channels of a query.
template <typename T>
struct AftAt {
  using A = Accumulator<T>;
  AftBlocks<T> of;
  const A* far;
  T* out;
  A* log_sum;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t item) const {
    const std::int64_t row = item / of.blocks, b = row / of.queries, i = row % of.queries;
    const std::int64_t c = of.first(item), count = of.lanes(item), base = of.bias_base(b, i);
    const std::int64_t begin = of.first_near(b, i), end = of.end_near(i);
    LaneSums<A> sums;
    sums.clear();
    if (far != nullptr) sums.read(far + row * 3 * of.channels + c, of.channels, count);
    A top[aft_lanes] = {};
    for (std::int64_t l = 0; l < count; ++l) top[l] = sums.top[l];
    for (std::int64_t j = begin; j < end; ++j) {
      if (of.is_hidden(b, j)) continue;
      const T* const key = of.key + (b * of.keys + j) * of.channels + c;
      const A bias = of.bias[base + j];
#pragma omp simd
      for (std::int64_t l = 0; l < count; ++l) {
        const A x = wide(key[l]) + bias;
        top[l] = x > top[l] ? x : top[l];
      }
    }
    for (std::int64_t l = 0; l < count; ++l) {
      const A old = fast_exp(sums.top[l] - top[l]);
      sums.u[l] *= old;
      sums.z[l] *= old;
    }
    for (std::int64_t j = begin; j < end; ++j) {
      if (of.is_hidden(b, j)) continue;
      const std::int64_t at = (b * of.keys + j) * of.channels + c;
      const T *const key = of.key + at, *const value = of.value + at;
      const A bias = of.bias[base + j];
#pragma omp simd
      for (std::int64_t l = 0; l < count; ++l) {
        const A e = fast_exp(wide(key[l]) + bias - top[l]);
        sums.u[l] += e * wide(value[l]);
        sums.z[l] += e;
      }
    }
    for (std::int64_t l = 0; l < count; ++l) {
      const std::int64_t at = row * of.channels + c + l;
      write_mean(top[l], sums.u[l], sums.z[l], out[at], log_sum[at]);
    }
  }
};

// Sums over the far queries of each key, [batch, keys, 3, channels]: of the terms e^-log_sum g and
// e^-log_sum g out, with g = dout. An item is a block of channels of a batch row.
template <typename T>
struct FarQueries {
  using A = Accumulator<T>;
  AftBlocks<T> of;
  const T* dout;
  const A *initial, *last, *dlast;
  A *far, *dinitial;

  LONGSPAN_HOST_DEVICE void add(
      LaneSums<A>& sums, std::int64_t b, std::int64_t i, std::int64_t c, std::int64_t count) const {
    const std::int64_t at = (b * of.queries + i) * of.channels + c;
    const T *const upstream = dout + at, *const out = of.out + at;
    const A* const log_sum = of.log_sum + at;
#pragma omp simd
    for (std::int64_t l = 0; l < count; ++l) {
      const A g = wide(upstream[l]);
      sums.add(l, -log_sum[l], g, g * wide(out[l]));
    }
  }
  LONGSPAN_HOST_DEVICE A* place(std::int64_t b, std::int64_t j, std::int64_t c) const {
    return far + (b * of.keys + j) * 3 * of.channels + c;
  }

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t item) const {
    const std::int64_t b = item / of.blocks, c = of.first(item), count = of.lanes(item);
    const std::int64_t state = b * 3 * of.channels + c;
    LaneSums<A> sums;
    sums.clear();
    if (dlast != nullptr)
      for (std::int64_t l = 0; l < count; ++l) {
        sums.top[l] = -last[state + l];
        sums.u[l] = dlast[state + of.channels + l];
        sums.z[l] = -dlast[state + 2 * of.channels + l];
      }
    std::int64_t next = of.queries - 1;
    // The start of the document whose queries are in the sums.
    std::int64_t document = next < 0 ? -1 : of.start(b, next);
    for (std::int64_t j = of.keys - 1; j >= 0; --j) {
      if (j < document) sums.clear();
      for (; next >= 0 && of.query_begin + next >= j + of.window; --next) {
        const std::int64_t begin = of.start(b, next);
        if (begin > j) continue;
        add(sums, b, next, c, count);
        document = begin;
      }
      sums.write(place(b, j, c), of.channels, count);
    }
    if (dinitial != nullptr) {
      if (document >= 0) sums.clear();
      for (std::int64_t l = 0; l < count; ++l) {
        const A e = fast_exp(initial[state + l] + sums.top[l]);
        dinitial[state + l] = 0;
        dinitial[state + of.channels + l] = e * sums.u[l];
        dinitial[state + 2 * of.channels + l] = -e * sums.z[l];
      }
    }
    if (of.causal) return;
    sums.clear();
    next = 0;
    for (std::int64_t j = 0; j < of.keys; ++j) {
      for (; next <= j - of.later(); ++next) add(sums, b, next, c, count);
      sums.add_to(place(b, j, c), of.channels, count);
    }
  }
};

// An item is a block of channels of a key.
template <typename T>
struct AftKeyGradientAt {
  using A = Accumulator<T>;
  AftBlocks<T> of;
  const T* dout;
  const A* far;
  T *dkey, *dvalue;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t item) const {
    const std::int64_t row = item / of.blocks, b = row / of.keys, j = row % of.keys;
    const std::int64_t c = of.first(item), count = of.lanes(item), here = row * of.channels + c;
    A dv[aft_lanes] = {}, from_out[aft_lanes] = {}, k[aft_lanes] = {};
    const bool is_hidden = of.is_hidden(b, j);
    for (std::int64_t l = 0; l < count; ++l) {
      k[l] = wide(of.key[here + l]);
      if (far == nullptr || is_hidden) continue;
      const A* const sums = far + row * 3 * of.channels + c + l;
      const A e = fast_exp(k[l] + sums[0]);
      dv[l] = e * sums[of.channels];
      from_out[l] = e * sums[2 * of.channels];
    }
    const std::int64_t least = (of.causal ? j : j - of.window + 1) - of.query_begin;
    const std::int64_t most = j + of.window - of.query_begin;
    const std::int64_t end = most < of.queries ? most : of.queries;
    for (std::int64_t i = least > 0 ? least : 0; i < end && !is_hidden; ++i) {
      if (of.start(b, i) > j) continue;
      const std::int64_t at = (b * of.queries + i) * of.channels + c;
      const T *const upstream = dout + at, *const out = of.out + at;
      const A* const log_sum = of.log_sum + at;
      const A bias = of.bias[of.bias_base(b, i) + j];
#pragma omp simd
      for (std::int64_t l = 0; l < count; ++l) {
        const A pg = fast_exp(k[l] + bias - log_sum[l]) * wide(upstream[l]);
        dv[l] += pg;
        from_out[l] += pg * wide(out[l]);
      }
    }
    for (std::int64_t l = 0; l < count; ++l) {
      put(dvalue[here + l], dv[l]);
      put(dkey[here + l], wide(of.value[here + l]) * dv[l] - from_out[l]);
    }
  }
};

// An item is an element of the bias.
template <typename T>
struct AftBiasGradientAt {
  using A = Accumulator<T>;
  AftBlocks<T> of;
  std::int64_t batch;
  const T* dout;
  A* dbias;

  LONGSPAN_HOST_DEVICE A pair(std::int64_t b, std::int64_t i, std::int64_t j, A bias) const {
    const std::int64_t at = (b * of.queries + i) * of.channels, count = of.channels;
    const std::int64_t from = (b * of.keys + j) * of.channels;
    const T *const key = of.key + from, *const value = of.value + from, *const out = of.out + at;
    const T* const upstream = dout + at;
    const A* const log_sum = of.log_sum + at;
    A sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < count; ++c)
      sum += fast_exp(wide(key[c]) + bias - log_sum[c]) * wide(upstream[c]) *
             (wide(value[c]) - wide(out[c]));
    return sum;
  }

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t item) const {
    // Positions in a document.
    const std::int64_t row = item / of.columns, column = item % of.columns;
    const std::int64_t key = of.banded ? row + column - of.window + 1 : column;
    const std::int64_t distance = row > key ? row - key : key - row;
    A sum = 0;
    const bool counts =
        key >= 0 && key < of.keys && distance < of.window && (!of.causal || key <= row);
    for (std::int64_t b = 0; counts && b < batch; ++b) {
      const std::int64_t earliest = row - of.query_begin;
      const std::int64_t first = earliest > 0 ? earliest : 0;
      const std::int64_t end =
          of.lookback != nullptr ? of.queries : (earliest < of.queries ? earliest + 1 : 0);
      if (of.lookback == nullptr && earliest < 0) continue;
      for (std::int64_t i = first; i < end; ++i) {
        const std::int64_t begin = of.start(b, i), least = begin > 0 ? begin : 0;
        if (of.query_begin + i - least != row || of.is_hidden(b, least + key)) continue;
        sum += pair(b, i, least + key, of.bias[item]);
      }
    }
    dbias[item] = sum;
  }
};

// Workspace for the sums over far keys, or over far queries.
Tensor far_sums(const AttentionFree& call, std::int64_t rows, std::int64_t channels) {
  const Shape shape = {call.key.shape()[0], rows, 3, channels};
  return Tensor::empty(shape, call.log_sum.dtype(), call.key.device(), MemoryTag::workspace);
}

}  // namespace

void attention_free(Backend backend, const AttentionFree& call) {
  check(call);
  with_floating_type(call.key.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const AftBlocks<T> of(call);
    const std::int64_t batch = call.key.shape()[0];
    Tensor far;
    if (of.has_far()) far = far_sums(call, of.queries, of.channels);
    if (backend.state->is_meta()) return;
    if (of.has_far() || call.final_state.defined())
      parallel_rows(backend,
                    batch * of.blocks,
                    of.keys * aft_lanes,
                    FarKeys<T>{of,
                               elements_or_null<A>(call.initial),
                               elements_or_null<A>(far),
                               elements_or_null<A>(call.final_state)});
    if (by_tiles(call)) {
      mix_by_tiles(call, far);
      return;
    }
    parallel_rows(
        backend,
        batch * of.queries * of.blocks,
        (of.window < of.keys ? of.window + 1 : of.keys) * aft_lanes,
        AftAt<T>{of, elements_or_null<A>(far), call.out.data<T>(), call.log_sum.data<A>()});
  });
}

void attention_free_backward(Backend backend, const AttentionFreeGradient& call) {
  check(call);
  const AttentionFree& forward = call.forward;
  with_floating_type(forward.key.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const AftBlocks<T> of(forward);
    const std::int64_t batch = forward.key.shape()[0];
    const T* const dout = call.dout.data<T>();
    Tensor far;
    if (of.has_far()) far = far_sums(forward, of.keys, of.channels);
    if (backend.state->is_meta()) return;
    if (of.has_far() || call.dinitial.defined())
      parallel_rows(backend,
                    batch * of.blocks,
                    of.keys * aft_lanes,
                    FarQueries<T>{of,
                                  dout,
                                  elements_or_null<A>(forward.initial),
                                  elements_or_null<A>(forward.final_state),
                                  elements_or_null<A>(call.dfinal),
                                  elements_or_null<A>(far),
                                  elements_or_null<A>(call.dinitial)});
    if (by_tiles(forward))
      key_gradients_by_tiles(call, far);
    else
      parallel_rows(
          backend,
          batch * of.keys * of.blocks,
          (of.window < of.keys ? of.window + 1 : of.keys) * aft_lanes,
          AftKeyGradientAt<T>{
              of, dout, elements_or_null<A>(far), call.dkey.data<T>(), call.dvalue.data<T>()});
    if (!call.dbias.defined()) return;
    if (by_tiles(forward) && of.lookback == nullptr)
      bias_gradient_by_tiles(call);
    else
      parallel_rows(backend,
                    call.dbias.elements(),
                    batch * of.channels,
                    AftBiasGradientAt<T>{of, batch, dout, call.dbias.data<A>()});
  });
}

}  // namespace longspan
