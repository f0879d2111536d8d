#include <numeric>

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// partial[c] = sum over `rows` rows of x[r, c]. Four rows at a time, so that the sums are loaded
// and stored once for four.
template <typename T, typename A>
void sum_rows(const T* x, std::int64_t rows, std::int64_t width, A* partial) {
  std::fill(partial, partial + width, A{0});
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T *a = x + r * width, *b = a + width, *c = b + width, *d = c + width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i)
      partial[i] += (static_cast<A>(a[i]) + static_cast<A>(b[i])) +
                    (static_cast<A>(c[i]) + static_cast<A>(d[i]));
  }
  for (; r < rows; ++r) {
    const T* a = x + r * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) partial[i] += static_cast<A>(a[i]);
  }
}

// The sum of term(x[i]) in double, in blocks of a fixed length: independent of the number of
// threads.
template <typename Term>
double blocked_sum(const Tensor& x, const Term& term) {
  constexpr std::int64_t block = 8192;
  const std::int64_t count = x.elements();
  std::vector<double> sums(static_cast<std::size_t>((count + block - 1) / block));
  with_floating_type(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* elements = x.data<T>();
    for_ranges(std::ssize(sums), block, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t last = std::min(count, (b + 1) * block);
        const auto term_at = [&](std::int64_t i) {
          return term(static_cast<double>(static_cast<Accumulator<T>>(elements[i])));
        };
        // Parallel partial sums: they fill the vector units, with an explicit order.
        constexpr std::int64_t lanes = 32;
        double totals[lanes] = {};
        std::int64_t i = b * block;
        for (; i + lanes <= last; i += lanes)
          for (std::int64_t lane = 0; lane < lanes; ++lane) totals[lane] += term_at(i + lane);
        for (; i < last; ++i) totals[i % lanes] += term_at(i);
        sums[static_cast<std::size_t>(b)] = std::accumulate(totals, totals + lanes, 0.0);
      }
    });
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void write_total(const Tensor& total, double value) {
  check_total(total);
  with_floating_type(total.dtype(), [&]<typename T>(TypeTag<T>) {
    *total.data<T>() = static_cast<T>(static_cast<Accumulator<T>>(value));
  });
}

}  // namespace

void add_column_sums(Cpu, const Tensor& x, const Tensor& out) {
  check_add_column_sums(x, out);
  const std::int64_t rows = x.shape().rows(), width = x.shape().width();
  if (rows == 0 || width == 0) return;
  const std::int64_t block = rows_in_block(rows), blocks = (rows + block - 1) / block;
  with_floating_type(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const Tensor partial =
        Tensor::empty({blocks, width}, DTypeOf<A>::value, x.device(), MemoryTag::workspace);
    const T* from = x.data<T>();
    A* sums = partial.data<A>();
    for_rows(blocks, block * width, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        sum_rows(
            from + b * block * width, std::min(block, rows - b * block), width, sums + b * width);
    });
    if (out.dtype() == DTypeOf<A>::value)
      add_rows_in_order(sums, blocks, width, out.data<A>());
    else
      add_rows_in_order(sums, blocks, width, out.data<T>());
  });
}

void sum(Cpu, const Tensor& x, double factor, const Tensor& total) {
  write_total(total, factor * blocked_sum(x, [](double value) { return value; }));
}

void sum_of_squares(Cpu, const std::vector<Tensor>& tensors, const Tensor& total) {
  double value = 0;
  for (const Tensor& x : tensors) value += blocked_sum(x, [](double e) { return e * e; });
  write_total(total, value);
}

}  // namespace longspan
