// Probabilities of attention heads, and their gradients.
#include "framework/kernels/dense_attention_weights.h"

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

template <typename T>
struct HeadView {
  using A = Accumulator<T>;
  const T* query;
  const T* key;
  const std::int64_t* lengths;
  std::int64_t time, positions, heads, dim;  // heads of a row of query and key
  std::int64_t begin, count;                 // the selected heads
  A scale, weight;
  A* each;

  explicit HeadView(const DenseAttentionWeights& call)
      : query(call.query.data<T>()),
        key(call.key.data<T>()),
        lengths(call.lengths.defined() ? call.lengths.data<std::int64_t>() : nullptr),
        time(call.query.shape()[1]),
        positions(call.key.shape()[1]),
        heads(call.query.shape()[2]),
        dim(call.query.shape()[3]),
        begin(call.begin),
        count(call.end - call.begin),
        scale(static_cast<A>(call.scale)),
        weight(static_cast<A>(call.weight)),
        each(call.each.data<A>()) {}

  LONGSPAN_HOST_DEVICE std::int64_t num_valid_keys(std::int64_t batch) const {
    if (lengths == nullptr || lengths[batch] > positions) return positions;
    return lengths[batch] < 0 ? 0 : lengths[batch];
  }
  // Offset of the vector of a row; rows: time or positions.
  LONGSPAN_HOST_DEVICE std::int64_t at(std::int64_t row, std::int64_t head) const {
    return (row * heads + begin + head) * dim;
  }
  LONGSPAN_HOST_DEVICE std::int64_t each_at(std::int64_t row, std::int64_t head) const {
    return ((row / time * count + head) * time + row % time) * positions;
  }
};

template <typename A, typename T>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline A dot(const T* a, const T* b, std::int64_t n) {
  A sum = 0;
#ifndef __CUDACC__
#pragma omp simd reduction(+ : sum)
#endif
  for (std::int64_t i = 0; i < n; ++i) sum += wide(a[i]) * wide(b[i]);
  return sum;
}

template <typename A, typename T>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline void add_scaled(A factor,
                                                                   const T* x,
                                                                   A* sum,
                                                                   std::int64_t n) {
#ifndef __CUDACC__
#pragma omp simd
#endif
  for (std::int64_t i = 0; i < n; ++i) sum[i] += factor * wide(x[i]);
}

// Probabilities of the query in one row of batch x time.
template <typename T>
struct WriteHeads {
  using A = Accumulator<T>;
  HeadView<T> view;
  A* mean;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t batch = row / view.time, seen = view.num_valid_keys(batch);
    A* const sum = mean + row * view.positions;
    for (std::int64_t s = 0; s < view.positions; ++s) sum[s] = 0;
    for (std::int64_t head = 0; head < view.count; ++head) {
      A* const here = view.each + view.each_at(row, head);
      A largest = 0;
      for (std::int64_t s = 0; s < seen; ++s) {
        here[s] = view.scale * dot<A>(view.query + view.at(row, head),
                                      view.key + view.at(batch * view.positions + s, head),
                                      view.dim);
        if (s == 0 || here[s] > largest) largest = here[s];
      }
      A total = 0;
      for (std::int64_t s = 0; s < seen; ++s) {
        here[s] = fast_exp(here[s] - largest);
        total += here[s];
      }
      for (std::int64_t s = 0; s < view.positions; ++s) {
        here[s] = s < seen ? here[s] / total : A{0};
        sum[s] += view.weight * here[s];
      }
    }
  }
};

// Gradients of the scores and of the query in one row of batch x time.
template <typename T>
struct HeadQueryGradient {
  using A = Accumulator<T>;
  HeadView<T> view;
  const A* dmean;
  A* dscores;
  A* dquery;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t batch = row / view.time, seen = view.num_valid_keys(batch);
    const A* const from = dmean + row * view.positions;
    A* const own = dquery + row * view.heads * view.dim;
    for (std::int64_t i = 0; i < view.heads * view.dim; ++i) own[i] = 0;
    for (std::int64_t head = 0; head < view.count; ++head) {
      const A* const p = view.each + view.each_at(row, head);
      A* const scores = dscores + view.each_at(row, head);
      const A mean = dot<A>(p, from, seen);
      for (std::int64_t s = 0; s < view.positions; ++s) {
        scores[s] = s < seen ? view.scale * view.weight * p[s] * (from[s] - mean) : A{0};
        if (s < seen)
          add_scaled(scores[s],
                     view.key + view.at(batch * view.positions + s, head),
                     own + (view.begin + head) * view.dim,
                     view.dim);
      }
    }
  }
};

// Gradient of the key in one row of batch x positions.
template <typename T>
struct HeadKeyGradient {
  using A = Accumulator<T>;
  HeadView<T> view;
  const A* dscores;
  A* dkey;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t batch = row / view.positions, s = row % view.positions;
    A* const own = dkey + row * view.heads * view.dim;
    for (std::int64_t i = 0; i < view.heads * view.dim; ++i) own[i] = 0;
    if (s >= view.num_valid_keys(batch)) return;
    for (std::int64_t head = 0; head < view.count; ++head)
      for (std::int64_t t = batch * view.time; t < (batch + 1) * view.time; ++t)
        add_scaled(dscores[view.each_at(t, head) + s],
                   view.query + view.at(t, head),
                   own + (view.begin + head) * view.dim,
                   view.dim);
  }
};

}  // namespace

void dense_attention_weights(Backend backend, const DenseAttentionWeights& call) {
  check(call);
  with_floating_type(call.query.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const HeadView<T> view(call);
    parallel_rows(backend,
                  call.query.shape()[0] * view.time,
                  view.count * view.positions * view.dim,
                  WriteHeads<T>{view, call.mean.data<A>()});
  });
}

void head_attention_backward(Backend backend, const HeadAttentionGradient& call) {
  check(call);
  with_floating_type(call.forward.query.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const HeadView<T> view(call.forward);
    const std::int64_t batch = call.forward.query.shape()[0];
    parallel_rows(backend,
                  batch * view.time,
                  view.count * view.positions * view.dim,
                  HeadQueryGradient<T>{
                      view, call.dmean.data<A>(), call.dscores.data<A>(), call.dquery.data<A>()});
    parallel_rows(backend,
                  batch * view.positions,
                  view.count * view.time * view.dim,
                  HeadKeyGradient<T>{view, call.dscores.data<A>(), call.dkey.data<A>()});
  });
}

}  // namespace longspan
