#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "framework/kernels/attention.h"
#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

void check(const MergeAttention& m) {
  require(m.out.defined() && m.log_sum_exp.defined() && m.part.defined() &&
              m.part_log_sum_exp.defined(),
          "merge_attention: out, part and both log_sum_exp are needed");
  const Shape& part = m.part.shape();
  const DType sums = accumulator_of(m.part.dtype());
  require(part.dimensions() == 4 && m.out.shape().dimensions() == 4 &&
              m.out.shape() == part.with(1, m.position.defined() ? m.out.shape()[1] : part[1]) &&
              (m.out.dtype() == m.part.dtype() || m.out.dtype() == sums),
          "merge_attention: out is {} {}, wanted that of the part, {}, in {} or {}",
          name_of(m.out.dtype()),
          m.out.shape().to_string(),
          part.to_string(),
          name_of(m.part.dtype()),
          name_of(sums));
  const auto expect = [&](const Tensor& t, std::int64_t rows, DType dtype, const char* name) {
    const Shape wanted{part[0], part[2], rows};
    require(t.shape() == wanted && t.dtype() == dtype,
            "merge_attention: {} is {} {}, wanted {} {}",
            name,
            name_of(t.dtype()),
            t.shape().to_string(),
            name_of(dtype),
            wanted.to_string());
  };
  expect(m.log_sum_exp, m.out.shape()[1], sums, "log_sum_exp");
  expect(m.part_log_sum_exp, part[1], sums, "part_log_sum_exp");
  if (m.position.defined()) expect(m.position, part[1], DType::i32, "position");
}

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
  // Of a row of the part: where its sum stands, and its place in the whole, -1 without one.
  struct Place {
    std::int64_t part_sum;
    std::int64_t sum;
    std::int64_t row;
  };
  const auto place_of = [=](std::int64_t row) -> Place {
    const std::int64_t b = row / (rows * heads), h = row % heads, i = row / heads % rows;
    const std::int64_t part_sum = (b * heads + h) * rows + i;
    const std::int64_t at = position != nullptr ? position[part_sum] : i;
    if (at < 0) return {part_sum, -1, -1};
    return {part_sum, (b * heads + h) * time + at, (b * time + at) * heads + h};
  };
  for_rows(shape[0] * rows * heads, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (position != nullptr && row + rows_ahead < end) {
        const Place next = place_of(row + rows_ahead);
        if (next.row >= 0) ask_for(out + next.row * width, width);
      }
      const Place place = place_of(row);
      if (place.row < 0) continue;
      T& sum = sums[place.sum];
      const T c = part_sums[place.part_sum];
      const T most = std::max(sum, c);
      // Neither side saw a key: what stands there is 0 and stays.
      if (most == -std::numeric_limits<T>::infinity()) continue;
      const T total = most + std::log1p(std::exp(std::min(sum, c) - most));
      const T keep = std::exp(sum - total);
      const T take = std::exp(c - total);
      sum = total;
      const Part* const of_part = part + row * width;
      Out* const to = out + place.row * width;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i)
        put(to[i], keep * static_cast<T>(to[i]) + take * static_cast<T>(of_part[i]));
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

void begin_merge(Cpu, const Tensor& out, const Tensor& log_sum_exp) {
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
