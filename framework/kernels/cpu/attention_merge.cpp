#include <cmath>
#include <limits>

#include "framework/kernels/attention.h"
#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

void check(const MergeAttention& m) {
  require(m.out.defined() && m.log_sum_exp.defined() && m.part.defined() &&
              m.part_log_sum_exp.defined(),
          "merge_attention: out, part and both log_sum_exp are needed");
  const Shape& shape = m.part.shape();
  const DType sums = accumulator_of(m.part.dtype());
  require(shape.dimensions() == 4 && m.out.shape() == shape &&
              (m.out.dtype() == m.part.dtype() || m.out.dtype() == sums),
          "merge_attention: out is {} {}, wanted {} of {} or {}",
          name_of(m.out.dtype()),
          m.out.shape().to_string(),
          shape.to_string(),
          name_of(m.part.dtype()),
          name_of(sums));
  const Shape rows{shape[0], shape[2], shape[1]};
  for (const Tensor* const t : {&m.log_sum_exp, &m.part_log_sum_exp})
    require(t->shape() == rows && t->dtype() == sums,
            "merge_attention: log_sum_exp is {} {}, wanted {} {}",
            name_of(t->dtype()),
            t->shape().to_string(),
            name_of(sums),
            rows.to_string());
}

template <typename Out, typename Part>
void merge(const MergeAttention& m) {
  using T = Accumulator<Part>;
  const Shape& shape = m.part.shape();
  const std::int64_t time = shape[1];
  const std::int64_t heads = shape[2];
  const std::int64_t width = shape[3];
  Out* const out = m.out.data<Out>();
  const Part* const part = m.part.data<Part>();
  T* const sums = m.log_sum_exp.data<T>();
  const T* const part_sums = m.part_log_sum_exp.data<T>();
  for_rows(shape[0] * time * heads, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t b = row / (time * heads);
      const std::int64_t place = (b * heads + row % heads) * time + row / heads % time;
      const T a = sums[place];
      const T c = part_sums[place];
      const T most = std::max(a, c);
      // Neither side saw a key: what stands there is 0 and stays.
      if (most == -std::numeric_limits<T>::infinity()) continue;
      const T total = most + std::log1p(std::exp(std::min(a, c) - most));
      const T keep = std::exp(a - total);
      const T take = std::exp(c - total);
      sums[place] = total;
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i)
        put(out[i], keep * static_cast<T>(out[i]) + take * static_cast<T>(part[i]));
    }
  });
}

}  // namespace

void merge_attention(Cpu, const MergeAttention& m) {
  check(m);
  with_floating_type(m.part.dtype(), [&](auto tag) {
    using Part = typename decltype(tag)::type;
    if (m.out.dtype() == m.part.dtype())
      merge<Part, Part>(m);
    else
      merge<Accumulator<Part>, Part>(m);
  });
}

}  // namespace longspan
