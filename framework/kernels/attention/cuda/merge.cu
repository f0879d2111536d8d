#include "framework/kernels/attention/check.h"
#include "framework/kernels/attention/shared/pair_math.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/element.h"

namespace longspan {
namespace {

// A row of the part: its batch row, query and head, and its destination.
struct MergeShape {
  std::int64_t rows, heads, width, time;
  const std::int32_t* position;

  __device__ std::int64_t part_row(std::int64_t i) const {  // row of log-sum-exps
    return (i / (rows * heads) * heads + i % heads) * rows + i / heads % rows;
  }
  __device__ std::int64_t query(std::int64_t i) const {
    return position != nullptr ? position[part_row(i)] : i / heads % rows;
  }
  __device__ std::int64_t sum_row(std::int64_t i) const {
    return (i / (rows * heads) * heads + i % heads) * time + query(i);
  }
  __device__ std::int64_t out_row(std::int64_t i) const {
    return (i / (rows * heads) * time + query(i)) * heads + i % heads;
  }
};

// Merges the outputs of all elements before the log-sum-exps of any row, because both need the
// previous log-sum-exps.
template <typename Out, typename Part>
struct MergeElement {
  using T = Accumulator<Part>;
  MergeShape shape;
  Out* out;
  const Part* part;
  const T* sums;
  const T* part_sums;

  __device__ void operator()(std::int64_t e) const {
    const std::int64_t i = e / shape.width;
    if (shape.query(i) < 0) return;
    const tile_attention::MergedRow<T> merged(sums[shape.sum_row(i)], part_sums[shape.part_row(i)]);
    if (!merged.seen) return;
    Out& to = out[shape.out_row(i) * shape.width + e % shape.width];
    put(to, merged.of(static_cast<T>(to), static_cast<T>(part[e])));
  }
};

template <typename T>
struct MergeSum {
  MergeShape shape;
  T* sums;
  const T* part_sums;

  __device__ void operator()(std::int64_t i) const {
    if (shape.query(i) < 0) return;
    T& sum = sums[shape.sum_row(i)];
    const tile_attention::MergedRow<T> merged(sum, part_sums[shape.part_row(i)]);
    if (merged.seen) sum = merged.log_sum_exp;
  }
};

template <typename Out, typename Part>
void merge(Cuda cuda, const MergeAttention& m) {
  using T = Accumulator<Part>;
  const Shape& s = m.part.shape();
  const MergeShape shape = {s[1],
                            s[2],
                            s[3],
                            m.out.shape()[1],
                            m.position.defined() ? m.position.data<std::int32_t>() : nullptr};
  T* const sums = m.log_sum_exp.data<T>();
  const T* const part_sums = m.part_log_sum_exp.data<T>();
  for_each_element(
      cuda,
      m.part.elements(),
      MergeElement<Out, Part>{shape, m.out.data<Out>(), m.part.data<Part>(), sums, part_sums});
  for_each_element(cuda, s[0] * s[1] * s[2], MergeSum<T>{shape, sums, part_sums});
}

template <typename T>
struct SetToNothing {
  T* sums;

  __device__ void operator()(std::int64_t i) const {
    sums[i] = -std::numeric_limits<T>::infinity();
  }
};

}  // namespace

void merge_attention(Cuda cuda, const MergeAttention& m) {
  tile_attention::check(m);
  with_floating_type(m.part.dtype(), [&]<typename Part>(TypeTag<Part>) {
    if (m.out.dtype() == m.part.dtype())
      merge<Part, Part>(cuda, m);
    else
      merge<Accumulator<Part>, Part>(cuda, m);
  });
}

void init_merge(Cuda cuda, const Tensor& out, const Tensor& log_sum_exp) {
  out.zero();
  with_floating_type(log_sum_exp.dtype(), [&]<typename In>(TypeTag<In>) {
    using T = Accumulator<In>;
    for_each_element(cuda, log_sum_exp.elements(), SetToNothing<T>{log_sum_exp.data<T>()});
  });
}

}  // namespace longspan
