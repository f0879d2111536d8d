#include "framework/kernels/attention/cuda/linear_parts.h"

namespace longspan {
namespace linear_attention_parts {
namespace {

template <typename T>
struct GradientView {
  using A = Accumulator<T>;
  const T* dout;
  const A* after;
  T *dquery, *dkey, *dvalue;
  A *dlog_weight, *ddecay;

  explicit GradientView(const LinearAttentionGradient& g)
      : dout(g.dout.data<T>()),
        after(elements_or_null<A>(g.after)),
        dquery(elements_or_null<T>(g.dquery)),
        dkey(elements_or_null<T>(g.dkey)),
        dvalue(elements_or_null<T>(g.dvalue)),
        dlog_weight(elements_or_null<A>(g.dlog_weight)),
        ddecay(elements_or_null<A>(g.ddecay)) {}
};

// The gradients of n, followed by those of d. All threads of the block must call it.
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
  along = block_reduce(along, s.scratch, Plus());
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

// scratch: one transposed state for each block: [values + 1, features]. across_end: [parts, batch,
// heads], the decay gradient that crosses the end of each part.
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
    along = block_reduce(along, s.scratch, Plus());
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
  across = block_reduce(across, s.scratch, Plus());
  if (threadIdx.x == 0) across_end[(at.part * v.batch + at.b) * v.heads + at.h] = across;
}

// scratch: two states for each block, [features, values + 1] and its transpose.
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
    along = block_reduce(along, s.scratch, Plus());
    if (threadIdx.x > 0) continue;
    if (g.dlog_weight != nullptr) g.dlog_weight[place] = along;
    if (g.ddecay == nullptr) continue;
    over += static_cast<double>(g.ddecay[place]) - static_cast<double>(along);
    g.ddecay[place] = static_cast<A>(over);
  }
}

}  // namespace
}  // namespace linear_attention_parts

void linear_states_backward(Cuda cuda, const LinearAttentionGradient& g, const Tensor& states) {
  using namespace linear_attention_parts;
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
  using namespace linear_attention_parts;
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

}  // namespace longspan
