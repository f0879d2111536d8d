#include "framework/kernels/attention/cuda/linear_parts.h"

namespace longspan {
namespace linear_attention_parts {
namespace {

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

// scratch: one state for each block.
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

template <typename A>
struct ScanElement {
  std::int64_t elements, head_elements, heads, part;
  A* states;
  A* sums;
  const A* decays;

  __device__ void operator()(std::int64_t i) const {
    A& state = states[part * elements + i];
    const A own = state;
    const A factor = decays == nullptr ? A{1} : fast_exp(decays[part * heads + i / head_elements]);
    state = sums[i];
    sums[i] = sums[i] * factor + own;
  }
};

}  // namespace
}  // namespace linear_attention_parts

void linear_states(Cuda cuda,
                   const LinearAttention& call,
                   const Tensor& states,
                   const Tensor& decays) {
  using namespace linear_attention_parts;
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
             elements_or_null<A>(decays));
    });
  });
}

void linear_attention(Cuda cuda, const LinearAttention& call) {
  using namespace linear_attention_parts;
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

void scan_states(Cuda cuda, const StateScan& scan) {
  using namespace linear_attention_parts;
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
