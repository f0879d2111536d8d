#include "framework/kernels/elementwise.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void scale_and_add_rows(Cpu, double factor, const Tensor& x, const Tensor& table, const Tensor& y) {
  check_scale_and_add_rows(x, table, y);
  const std::int64_t time = x.shape()[1], width = x.shape()[2];
  with_both_types(x, table, [&](auto tag, auto table_tag) {
    using T = typename decltype(tag)::type;
    using R = typename decltype(table_tag)::type;
    using A = Wider<T, R>;
    const T* from = x.data<T>();
    const R* rows = table.data<R>();
    T* to = y.data<T>();
    const A by = static_cast<A>(factor);
    for_rows(x.shape()[0] * time, width, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const R* row = rows + r % time * width;
        const T* source = from + r * width;
        T* target = to + r * width;
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i)
          put(target[i],
              by * static_cast<A>(static_cast<Accumulator<T>>(source[i])) +
                  static_cast<A>(static_cast<Accumulator<R>>(row[i])));
      }
    });
  });
}

void copy_rows(Cpu,
               const Tensor& from,
               std::int64_t from_begin,
               const Tensor& to,
               std::int64_t to_begin,
               std::int64_t count,
               bool add) {
  check_copy_rows(from, from_begin, to, to_begin, count);
  const std::int64_t outer = from.shape()[0], width = from.shape()[2];
  const std::int64_t from_time = from.shape()[1], to_time = to.shape()[1];
  // Row r of the outer * count rows to copy.
  const auto source_row = [=](std::int64_t r) {
    return (r / count * from_time + from_begin + r % count) * width;
  };
  const auto target_row = [=](std::int64_t r) {
    return (r / count * to_time + to_begin + r % count) * width;
  };
  if (!add) {
    const auto size = static_cast<std::int64_t>(size_of(from.dtype()));
    const std::byte* source = from.bytes();
    std::byte* target = to.bytes();
    for_rows(outer * count, width, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        std::memcpy(target + target_row(r) * size,
                    source + source_row(r) * size,
                    static_cast<std::size_t>(width * size));
    });
    return;
  }
  with_floating_type(from.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T* source = from.data<T>();
    T* target = to.data<T>();
    for_rows(outer * count, width, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T* x = source + source_row(r);
        T* y = target + target_row(r);
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i)
          put(y[i], static_cast<A>(y[i]) + static_cast<A>(x[i]));
      }
    });
  });
}

}  // namespace longspan
