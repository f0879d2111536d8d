#include "framework/kernels/attention/linear_attention.h"
#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

// As many parts as are handed to a kernel with its arguments.
constexpr int most_parts = 64;
struct PartTable {
  std::int64_t begin[most_parts];
  std::int64_t end[most_parts];
  std::int64_t first;  // of them
};

// A block computes a part of a head row by row. Extents and pointers of a call; those that are not
// given are null.
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
        log_weight(of<A>(call.log_weight)),
        decay(of<A>(call.decay)),
        before(of<A>(call.before)),
        out(of<T>(call.out)),
        divisors(of<A>(call.divisors)),
        epsilon(static_cast<A>(call.epsilon)),
        map(call.map),
        divisor(call.divisor),
        causal(call.causal) {}

  template <typename X>
  static X* of(const Tensor& tensor) {
    return tensor.defined() ? tensor.data<X>() : nullptr;
  }
  LONGSPAN_HOST_DEVICE std::int64_t columns() const { return values + 1; }
  LONGSPAN_HOST_DEVICE std::int64_t state_elements() const { return features * columns(); }
};

// Which part of which head a block computes.
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

// A block's rows in shared memory: as many elements as `shared_rows` says.
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
  if (v.map == FeatureMap::identity) return value;
  return value > 0 ? value + 1 : exponential(value);
}
// What a gradient with respect to a feature is multiplied by.
template <typename T>
__device__ Accumulator<T> slope(const LinearView<T>& v, T x) {
  using A = Accumulator<T>;
  if (v.map == FeatureMap::identity) return A{1};
  const A made = feature(v, x);
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
  const A weight = v.log_weight == nullptr ? A{1} : exponential(v.log_weight[place]);
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
  return v.decay == nullptr ? A{1} : exponential(v.decay[(at.b * v.time + row) * v.heads + at.h]);
}
template <typename T>
__device__ const Accumulator<T>* state_at(const LinearView<T>& v,
                                          const Accumulator<T>* states,
                                          const BlockItem& at) {
  if (states == nullptr) return nullptr;
  const std::int64_t part = v.causal ? at.part : 0;
  return states + ((part * v.batch + at.b) * v.heads + at.h) * v.features * (v.values + 1);
}

template <typename T>
__global__ void add_part(LinearView<T> v,
                         PartTable parts,
                         Accumulator<T>* states,
                         Accumulator<T>* decays) {
  using A = Accumulator<T>;
  const BlockItem at(v, parts);
  SharedRows<T> s(v);
  const std::int64_t columns = v.values + 1;
  const std::int64_t place = (at.part * v.batch + at.b) * v.heads + at.h;
  A* const state = states + place * v.features * columns;
  each(v.features * columns, [&](std::int64_t i) { state[i] = 0; });
  A decayed = 0;
  for (std::int64_t row = at.begin; row < at.end; ++row) {
    __syncthreads();
    read_key(v, at, row, s);
    const A decay = decay_of(v, at, row);
    if (v.decay != nullptr) decayed += v.decay[(at.b * v.time + row) * v.heads + at.h];
    __syncthreads();
    each(v.features * columns, [&](std::int64_t i) {
      state[i] = state[i] * decay + s.key[i / columns] * s.value[i % columns];
    });
  }
  if (decays != nullptr && threadIdx.x == 0) decays[place] = decayed;
}

// scratch: a state for each block.
template <typename T>
__global__ void attend_part(LinearView<T> v, PartTable parts, Accumulator<T>* scratch) {
  using A = Accumulator<T>;
  const BlockItem at(v, parts);
  SharedRows<T> s(v);
  const std::int64_t columns = v.values + 1;
  A* const state = scratch + blockIdx.x * v.features * columns;
  const A* const before = state_at(v, v.before, at);
  each(v.features * columns,
       [&](std::int64_t i) { state[i] = before == nullptr ? A{0} : before[i]; });
  for (std::int64_t row = at.begin; row < at.end; ++row) {
    __syncthreads();
    read_query(v, at, row, s);
    if (v.causal) read_key(v, at, row, s);
    const A decay = decay_of(v, at, row);
    __syncthreads();
    each(columns, [&](std::int64_t c) {
      A sum = 0;
      for (std::int64_t f = 0; f < v.features; ++f) {
        A& element = state[f * columns + c];
        if (v.causal) element = element * decay + s.key[f] * s.value[c];
        sum += s.query[f] * element;
      }
      s.gradient[c] = sum;
    });
    __syncthreads();
    A divisor = s.gradient[v.values];
    if (v.divisor == Divisor::none)
      divisor = 1;
    else if (v.divisor == Divisor::sum)
      divisor += v.epsilon;
    else if (std::abs(divisor) < v.epsilon)
      divisor = divisor < 0 ? -v.epsilon : v.epsilon;
    const std::int64_t place = (at.b * v.time + row) * v.heads + at.h;
    each(v.values,
         [&](std::int64_t c) { put(v.out[place * v.values + c], s.gradient[c] / divisor); });
    if (threadIdx.x == 0 && v.divisor != Divisor::none) v.divisors[place] = divisor;
  }
}

template <typename T>
struct GradientView {
  using A = Accumulator<T>;
  const T* dout;
  const A* after;
  T *dquery, *dkey, *dvalue;
  A *dlog_weight, *ddecay;

  explicit GradientView(const LinearAttentionGradient& g)
      : dout(g.dout.data<T>()),
        after(LinearView<T>::template of<A>(g.after)),
        dquery(LinearView<T>::template of<T>(g.dquery)),
        dkey(LinearView<T>::template of<T>(g.dkey)),
        dvalue(LinearView<T>::template of<T>(g.dvalue)),
        dlog_weight(LinearView<T>::template of<A>(g.dlog_weight)),
        ddecay(LinearView<T>::template of<A>(g.ddecay)) {}
};

// The gradients of n and, behind them, of d. All threads of the block call it.
template <typename T>
__device__ void read_gradient(const LinearView<T>& v,
                              const GradientView<T>& g,
                              const BlockItem& at,
                              std::int64_t row,
                              SharedRows<T>& s) {
  using A = Accumulator<T>;
  const std::int64_t place = (at.b * v.time + row) * v.heads + at.h;
  const T* const dout = g.dout + place * v.values;
  const T* const out = v.out + place * v.values;
  const A divisor = v.divisor == Divisor::none ? A{1} : v.divisors[place];
  A along = 0;
  each(v.values, [&](std::int64_t c) {
    s.gradient[c] = wide(dout[c]) / divisor;
    along += wide(dout[c]) * wide(out[c]);
  });
  along = over_block(along, s.scratch, Plus());
  const bool held = v.divisor == Divisor::none ||
                    (v.divisor == Divisor::away_from_0 && std::abs(divisor) == v.epsilon);
  if (threadIdx.x == 0) s.gradient[v.values] = held ? A{0} : -along / divisor;
}

template <typename T>
__global__ void add_part_backward(LinearView<T> v,
                                  GradientView<T> g,
                                  PartTable parts,
                                  Accumulator<T>* states) {
  using A = Accumulator<T>;
  const BlockItem at(v, parts);
  SharedRows<T> s(v);
  const std::int64_t columns = v.values + 1;
  A* const state = states + ((at.part * v.batch + at.b) * v.heads + at.h) * v.features * columns;
  each(v.features * columns, [&](std::int64_t i) { state[i] = 0; });
  for (std::int64_t row = at.end - 1; row >= at.begin; --row) {
    __syncthreads();
    read_query(v, at, row, s);
    read_gradient(v, g, at, row, s);
    const A decay = decay_of(v, at, row);
    __syncthreads();
    each(v.features * columns, [&](std::int64_t i) {
      state[i] = (state[i] + s.query[i / columns] * s.gradient[i % columns]) * decay;
    });
  }
}

// scratch: a state for each block, turned: [values + 1, features]. across_end: [parts, batch,
// heads], what goes over the end of each part.
template <typename T>
__global__ void query_backward(LinearView<T> v,
                               GradientView<T> g,
                               PartTable parts,
                               Accumulator<T>* scratch,
                               Accumulator<T>* across_end) {
  using A = Accumulator<T>;
  const BlockItem at(v, parts);
  SharedRows<T> s(v);
  const std::int64_t columns = v.values + 1, features = v.features;
  A* const state = scratch + blockIdx.x * features * columns;
  const A* const before = state_at(v, v.before, at);
  each(features * columns, [&](std::int64_t i) {
    state[i] = before == nullptr ? A{0} : before[i % features * columns + i / features];
  });
  for (std::int64_t row = at.begin; row < at.end; ++row) {
    __syncthreads();
    if (v.causal) read_key(v, at, row, s);
    read_gradient(v, g, at, row, s);
    const A decay = decay_of(v, at, row);
    const std::int64_t place = (at.b * v.time + row) * v.heads + at.h;
    __syncthreads();
    A along = 0;
    each(features, [&](std::int64_t f) {
      A sum = 0;
      for (std::int64_t c = 0; c < columns; ++c) {
        A& element = state[c * features + f];
        if (v.causal) element = element * decay + s.key[f] * s.value[c];
        sum += element * s.gradient[c];
      }
      const T x = v.query[place * features + f];
      along += feature(v, x) * sum;
      if (g.dquery != nullptr) put(g.dquery[place * features + f], sum * slope(v, x));
    });
    if (g.ddecay == nullptr) continue;
    along = over_block(along, s.scratch, Plus());
    if (threadIdx.x == 0) g.ddecay[place] = along;
  }
  if (g.ddecay == nullptr) return;
  __syncthreads();
  const A* const after = state_at(v, g.after, at);
  A across = 0;
  if (after != nullptr)
    each(features * columns, [&](std::int64_t i) {
      across += state[i] * after[i % features * columns + i / features];
    });
  across = over_block(across, s.scratch, Plus());
  if (threadIdx.x == 0) across_end[(at.part * v.batch + at.b) * v.heads + at.h] = across;
}

// scratch: two states for each block, [features, values + 1] and turned.
template <typename T>
__global__ void key_backward(LinearView<T> v,
                             GradientView<T> g,
                             PartTable parts,
                             Accumulator<T>* scratch,
                             const Accumulator<T>* across_end) {
  using A = Accumulator<T>;
  const BlockItem at(v, parts);
  SharedRows<T> s(v);
  const std::int64_t columns = v.values + 1, features = v.features;
  A* const sums = scratch + 2 * blockIdx.x * features * columns;
  A* const turned = sums + features * columns;
  const A* const after = state_at(v, g.after, at);
  each(features * columns, [&](std::int64_t i) {
    sums[i] = after == nullptr ? A{0} : after[i];
    turned[i] = after == nullptr ? A{0} : after[i % features * columns + i / features];
  });
  double over = g.ddecay == nullptr
                    ? 0
                    : static_cast<double>(across_end[(at.part * v.batch + at.b) * v.heads + at.h]);
  for (std::int64_t row = at.end - 1; row >= at.begin; --row) {
    __syncthreads();
    const A weight = read_key(v, at, row, s);
    if (v.causal) {
      read_query(v, at, row, s);
      read_gradient(v, g, at, row, s);
    }
    const A decay = decay_of(v, at, row);
    const std::int64_t place = (at.b * v.keys + row) * v.heads + at.h;
    __syncthreads();
    A along = 0;
    each(features, [&](std::int64_t f) {
      A sum = 0;
      for (std::int64_t c = 0; c < columns; ++c) {
        A& element = turned[c * features + f];
        if (v.causal) element += s.query[f] * s.gradient[c];
        sum += element * s.value[c];
        element *= decay;
      }
      along += s.key[f] * sum;
      if (g.dkey != nullptr)
        put(g.dkey[place * features + f],
            weight == 0 ? A{0} : weight * sum * slope(v, v.key[place * features + f]));
    });
    each(columns, [&](std::int64_t c) {
      A sum = 0;
      for (std::int64_t f = 0; f < features; ++f) {
        A& element = sums[f * columns + c];
        if (v.causal) element += s.query[f] * s.gradient[c];
        sum += element * s.key[f];
        element *= decay;
      }
      if (g.dvalue != nullptr && c < v.values) put(g.dvalue[place * v.values + c], sum);
    });
    if (g.ddecay == nullptr && g.dlog_weight == nullptr) continue;
    along = over_block(along, s.scratch, Plus());
    if (threadIdx.x > 0) continue;
    if (g.dlog_weight != nullptr) g.dlog_weight[place] = along;
    if (g.ddecay == nullptr) continue;
    over += static_cast<double>(g.ddecay[place]) - static_cast<double>(along);
    g.ddecay[place] = static_cast<A>(over);
  }
}

// Calls f(table, count) for as many parts at a time as a table holds.
template <typename F>
void for_tables(const Ranges& parts, const F& f) {
  const auto count = static_cast<std::int64_t>(parts.size());
  for (std::int64_t first = 0; first < count; first += most_parts) {
    PartTable table = {};
    table.first = first;
    const std::int64_t here = std::min<std::int64_t>(count - first, most_parts);
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
      std::min<std::int64_t>(static_cast<std::int64_t>(parts.size()), most_parts);
  return Tensor::empty({most * v.batch * v.heads, each * v.state_elements()},
                       accumulator_of(call.query.dtype()),
                       call.query.device(),
                       MemoryTag::workspace);
}

template <typename A>
struct ScanElement {
  std::int64_t elements, head_elements, heads, part;
  A* states;
  A* sums;
  const A* decays;

  __device__ void operator()(std::int64_t i) const {
    A& state = states[part * elements + i];
    const A own = state;
    const A factor =
        decays == nullptr ? A{1} : exponential(decays[part * heads + i / head_elements]);
    state = sums[i];
    sums[i] = sums[i] * factor + own;
  }
};

}  // namespace

void linear_states(Cuda cuda,
                   const LinearAttention& call,
                   const Tensor& states,
                   const Tensor& decays) {
  check(call);
  with_floating_type(call.query.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const LinearView<T> v(call);
    for_tables(call.key_parts, [&](const PartTable& table, std::int64_t parts) {
      launch(cuda,
             linear_grid(v, parts),
             add_part<T>,
             v,
             table,
             states.data<A>(),
             LinearView<T>::template of<A>(decays));
    });
  });
}

void linear_attention(Cuda cuda, const LinearAttention& call) {
  check(call);
  with_floating_type(call.query.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const LinearView<T> v(call);
    const Tensor scratch = states_of_blocks<T>(call, call.parts, 1);
    for_tables(call.parts, [&](const PartTable& table, std::int64_t parts) {
      launch(cuda, linear_grid(v, parts), attend_part<T>, v, table, scratch.data<A>());
    });
  });
}

void linear_states_backward(Cuda cuda, const LinearAttentionGradient& g, const Tensor& states) {
  check(g);
  with_floating_type(g.forward.query.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const LinearView<T> v(g.forward);
    for_tables(g.forward.parts, [&](const PartTable& table, std::int64_t parts) {
      launch(cuda,
             linear_grid(v, parts),
             add_part_backward<T>,
             v,
             GradientView<T>(g),
             table,
             states.data<A>());
    });
  });
}

void linear_attention_backward(Cuda cuda, const LinearAttentionGradient& g) {
  check(g);
  with_floating_type(g.forward.query.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const LinearView<T> v(g.forward);
    const std::int64_t all = std::ssize(g.forward.parts) * v.batch * v.heads;
    const Tensor across = Tensor::empty({std::max<std::int64_t>(all, 1)},
                                        accumulator_of(g.forward.query.dtype()),
                                        g.dout.device(),
                                        MemoryTag::workspace);
    const Tensor of_queries = states_of_blocks<T>(g.forward, g.forward.parts, 1);
    for_tables(g.forward.parts, [&](const PartTable& table, std::int64_t parts) {
      launch(cuda,
             linear_grid(v, parts),
             query_backward<T>,
             v,
             GradientView<T>(g),
             table,
             of_queries.data<A>(),
             across.data<A>());
    });
    const Tensor of_keys = states_of_blocks<T>(g.forward, g.forward.key_parts, 2);
    for_tables(g.forward.key_parts, [&](const PartTable& table, std::int64_t parts) {
      launch(cuda,
             linear_grid(v, parts),
             key_backward<T>,
             v,
             GradientView<T>(g),
             table,
             of_keys.data<A>(),
             static_cast<const A*>(across.data<A>()));
    });
  });
}

void scan_states(Cuda cuda, const StateScan& scan) {
  check(scan);
  const Shape& shape = scan.states.shape();
  const std::int64_t head_elements = shape[3] * shape[4], heads = shape[1] * shape[2];
  const Tensor sums = scan.last.defined() ? scan.last
                                          : Tensor::empty({shape[1], shape[2], shape[3], shape[4]},
                                                          scan.states.dtype(),
                                                          scan.states.device(),
                                                          MemoryTag::workspace);
  if (scan.first.defined())
    sums.copy_from(scan.first);
  else
    sums.zero();
  with_floating_type(scan.states.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    for (const std::int64_t part : scan.order)
      for_each_element(cuda,
                       heads * head_elements,
                       ScanElement<A>{heads * head_elements,
                                      head_elements,
                                      heads,
                                      part,
                                      scan.states.data<A>(),
                                      sums.data<A>(),
                                      scan.decays.defined() ? scan.decays.data<A>() : nullptr});
  });
}

}  // namespace longspan
