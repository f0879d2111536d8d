#include <algorithm>
#include <cstring>
#include <limits>

#include "framework/kernels/attention/check.h"
#include "framework/kernels/attention/shared/pair_math.h"
#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

template <typename Out, typename Part>
void merge(const MergeAttention& m) {
  using T = Accumulator<Part>;
  const Shape& shape = m.part.shape();
  const std::int64_t rows = shape[1];
  const std::int64_t heads = shape[2];
  const std::int64_t width = shape[3];
  const std::int64_t time = m.out.shape()[1];
  Out* const out = m.out.data<Out>();
  const Part* const part = m.part.data<Part>();
  T* const sums = m.log_sum_exp.data<T>();
  const T* const part_sums = m.part_log_sum_exp.data<T>();
  const std::int32_t* const position =
      m.position.defined() ? m.position.data<std::int32_t>() : nullptr;
  // A row of the part: the offset of its log-sum-exp, and its row in the full tensor, -1 if it has
  // none.
  struct Place {
    std::int64_t part_sum;
    std::int64_t sum;
    std::int64_t row;
  };
  const auto position_of = [=](std::int64_t row) -> Place {
    const std::int64_t b = row / (rows * heads), h = row % heads, i = row / heads % rows;
    const std::int64_t part_sum = (b * heads + h) * rows + i;
    const std::int64_t at = position != nullptr ? position[part_sum] : i;
    if (at < 0) return {part_sum, -1, -1};
    return {part_sum, (b * heads + h) * time + at, (b * time + at) * heads + h};
  };
  for_rows(shape[0] * rows * heads, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (position != nullptr && row + rows_ahead < end) {
        const Place next = position_of(row + rows_ahead);
        if (next.row >= 0) prefetch(out + next.row * width, width);
      }
      const Place place = position_of(row);
      if (place.row < 0) continue;
      T& sum = sums[place.sum];
      const tile_attention::MergedRow<T> merged(sum, part_sums[place.part_sum]);
      // No key on either side: the output is already 0.
      if (!merged.seen) continue;
      sum = merged.log_sum_exp;
      const Part* const of_part = part + row * width;
      Out* const to = out + place.row * width;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i)
        put(to[i], merged.of(static_cast<T>(to[i]), static_cast<T>(of_part[i])));
    }
  });
}

}  // namespace

void merge_attention(Cpu, const MergeAttention& m) {
  tile_attention::check(m);
  with_floating_type(m.part.dtype(), [&](auto tag) {
    using Part = typename decltype(tag)::type;
    if (m.out.dtype() == m.part.dtype())
      merge<Part, Part>(m);
    else
      merge<Accumulator<Part>, Part>(m);
  });
}

void init_merge(Cpu, const Tensor& out, const Tensor& log_sum_exp) {
  for_elements(static_cast<std::int64_t>(out.byte_size()),
               [&](std::int64_t begin, std::int64_t end) {
                 std::memset(out.bytes() + begin, 0, static_cast<std::size_t>(end - begin));
               });
  with_floating_type(log_sum_exp.dtype(), [&](auto tag) {
    using A = Accumulator<typename decltype(tag)::type>;
    std::ranges::fill(log_sum_exp.span<A>(), -std::numeric_limits<A>::infinity());
  });
}

}  // namespace longspan
