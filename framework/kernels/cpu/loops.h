// Work partitioning of CPU kernels: one parallel region for each kernel, none for small sizes, and
// splits at cache line boundaries.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/kernels/element.h"

namespace longspan {

// Fewer elements do not justify waking another thread.
inline constexpr std::int64_t serial_elements = 16384;

// Calls f(begin, end) on disjoint ranges that cover [0, count), one for each thread. `cost` is the
// number of elements that one item represents. Splits are multiples of `step`. f must not throw.
template <typename F>
void for_ranges(std::int64_t count, std::int64_t cost, std::int64_t step, const F& f) {
  if (count <= 0) return;
  const std::int64_t pieces =
      std::min<std::int64_t>(count * cost / serial_elements, omp_get_max_threads());
  if (pieces <= 1) {
    f(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(pieces))
  {
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t units = (count + step - 1) / step;
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t begin = units * thread / threads * step;
    const std::int64_t end = std::min(units * (thread + 1) / threads * step, count);
    if (begin < end) f(begin, end);
  }
}

// f(begin, end) on ranges of single elements.
template <typename F>
void for_elements(std::int64_t count, const F& f) {
  for_ranges(count, 1, 64, f);
}

// Calls f(i) for every i below count. Vectorized: f must have no branches, calls or loop-carried
// dependencies.
template <typename F>
void for_each_element(Cpu, std::int64_t count, F f) {
  for_elements(count, [f](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

// out[i] = f(i), rounded. Vectorized, as above.
template <typename T, typename F>
void write_elements(Cpu cpu, std::int64_t count, T* out, F f) {
  for_each_element(
      cpu, count, [=](std::int64_t i) __attribute__((always_inline)) { put(out[i], f(i)); });
}

// f(begin, end) on ranges of rows of `width` elements.
template <typename F>
void for_rows(std::int64_t rows, std::int64_t width, const F& f) {
  for_ranges(rows, std::max<std::int64_t>(width, 1), 1, f);
}

// Calls f(index) for every index below `count`, with dynamic scheduling: for few items of unequal
// cost. `cost` as in `for_ranges`.
template <typename F>
void for_pieces(std::int64_t count, std::int64_t cost, const F& f) {
  if (count * cost < 2 * serial_elements || count < 2) {
    for (std::int64_t i = 0; i < count; ++i) f(i);
    return;
  }
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t i = 0; i < count; ++i) f(i);
}

// Prefetch distance for rows at arbitrary addresses.
inline constexpr std::int64_t rows_ahead = 16;
template <typename T>
void prefetch(const T* row, std::int64_t width) {
  constexpr std::int64_t cache_line = 64 / sizeof(T);
  for (std::int64_t i = 0; i < width; i += cache_line) __builtin_prefetch(row + i);
}

// The elements of a short tensor, converted to accumulators `A` if it has a narrower dtype.
template <typename A>
class AccumulatorView {
 public:
  explicit AccumulatorView(const Tensor& tensor) {
    if (tensor.dtype() == DTypeOf<A>::value) {
      elements_ = tensor.data<A>();
      return;
    }
    copy_.resize(static_cast<std::size_t>(tensor.elements()));
    with_floating_type(tensor.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* from = tensor.data<T>();
      for (A& to : copy_) to = static_cast<A>(static_cast<Accumulator<T>>(*from++));
    });
    elements_ = copy_.data();
  }
  explicit AccumulatorView(std::vector<A> elements)
      : copy_(std::move(elements)), elements_(copy_.data()) {}
  AccumulatorView(const AccumulatorView&) = delete;
  AccumulatorView& operator=(const AccumulatorView&) = delete;

  const A* data() const { return elements_; }

 private:
  std::vector<A> copy_;
  const A* elements_ = nullptr;
};

// Sums over rows use blocks of this many rows for any number of threads, so that the result does
// not depend on it.
inline std::int64_t rows_in_block(std::int64_t rows) {
  return std::max<std::int64_t>(32, (rows + 255) / 256);
}

// out[c] += sum over rows of partial[r, c], in the order of r. partial: [rows, width], accumulator
// dtype; out: [width], T or its accumulator.
template <typename A, typename T>
void add_rows_in_order(const A* partial, std::int64_t rows, std::int64_t width, T* out) {
  for_ranges(width, rows, 64, [=](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t most = 64;
    for (std::int64_t c = begin; c < end; c += most) {
      const std::int64_t columns = std::min(most, end - c);
      A sums[most] = {};
      for (std::int64_t r = 0; r < rows; ++r) {
        const A* row = partial + r * width + c;
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) sums[i] += row[i];
      }
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i)
        put(out[c + i], static_cast<A>(out[c + i]) + sums[i]);
    }
  });
}

// Calls f(i, c) for every element i of rows of `shape`, with its feature c. Vectorized.
template <typename F>
void parallel_elements(Cpu, const Shape& shape, F f) {
  const std::int64_t width = shape.width();
  for_rows(shape.rows(), width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = row * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) f(first + c, c);
    }
  });
}

// For each group of `width` elements: g = f.of(group), then g(i, c) for its elements i, the c-th of
// the group. Vectorized.
template <typename F>
void parallel_groups(Cpu, std::int64_t groups, std::int64_t width, F f) {
  for_rows(groups, width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      const auto g = f.of(group);
      const std::int64_t first = group * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) g(first + c, c);
    }
  });
}

// Calls f(row) for every row, split among threads and not vectorized. `cost`: the number of
// elements that a row represents.
template <typename F>
void parallel_rows(Cpu, std::int64_t rows, std::int64_t cost, const F& f) {
  for_rows(rows, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) f(row);
  });
}

// For every head of every row of x [batch, time, heads, dim], with h = f.of(its number): h.pair(i)
// for the first `pairs` features, and h.rest(i) for those from `pairs` to dim - pairs.
template <typename F>
void for_each_of_heads(Cpu, const Shape& shape, std::int64_t pairs, F f) {
  const std::int64_t dim = shape[3];
  for_rows(shape.elements() / std::max<std::int64_t>(dim, 1),
           dim,
           [=](std::int64_t begin, std::int64_t end) {
             for (std::int64_t row = begin; row < end; ++row) {
               const auto head = f.of(row);
#pragma omp simd
               for (std::int64_t i = 0; i < pairs; ++i) head.pair(i);
               for (std::int64_t i = pairs; i < dim - pairs; ++i) head.rest(i);
             }
           });
}

}  // namespace longspan
