#include "framework/kernels/elementwise.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

void require_alike(const char* kernel, const Tensor& a, const Tensor& b) {
  require(a.elements() == b.elements() && a.dtype() == b.dtype(),
          "{}: found {} {} and {} {}, wanted the same number of elements and dtype",
          kernel,
          name_of(a.dtype()),
          a.shape().to_string(),
          name_of(b.dtype()),
          b.shape().to_string());
}

void require_as_many(const char* kernel, const Tensor& x, const Tensor& y) {
  require(x.elements() == y.elements(),
          "{}: x has shape {} and y {}, wanted the same number of elements",
          kernel,
          x.shape().to_string(),
          y.shape().to_string());
}

// Calls f(TypeTag<X>, TypeTag<Y>) with the types of both tensors.
template <typename F>
void with_both_types(const Tensor& x, const Tensor& y, const F& f) {
  with_floating_type(x.dtype(), [&](auto x_tag) {
    with_floating_type(y.dtype(), [&](auto y_tag) { f(x_tag, y_tag); });
  });
}

// The wider of two accumulators.
template <typename X, typename Y>
using Wider = decltype(Accumulator<X>{} + Accumulator<Y>{});

}  // namespace

void add(Cpu, const Tensor& a, const Tensor& b, const Tensor& out) {
  require_alike("add", a, b);
  require_alike("add", a, out);
  with_floating_type(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Accumulator<T>;
    const T *left = a.data<T>(), *right = b.data<T>();
    T* sum = out.data<T>();
    for_elements(a.elements(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        put(sum[i], static_cast<A>(left[i]) + static_cast<A>(right[i]));
    });
  });
}

void accumulate(Cpu, double factor, const Tensor& x, const Tensor& y) {
  require_as_many("accumulate", x, y);
  with_both_types(x, y, [&](auto x_tag, auto y_tag) {
    using X = typename decltype(x_tag)::type;
    using Y = typename decltype(y_tag)::type;
    using A = Wider<X, Y>;
    const X* from = x.data<X>();
    Y* to = y.data<Y>();
    const A by = static_cast<A>(factor);
    for_elements(x.elements(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        put(to[i],
            static_cast<A>(static_cast<Accumulator<Y>>(to[i])) +
                by * static_cast<A>(static_cast<Accumulator<X>>(from[i])));
    });
  });
}

void scale(Cpu, double factor, const Tensor& x, const Tensor& y) {
  require_as_many("scale", x, y);
  with_both_types(x, y, [&](auto x_tag, auto y_tag) {
    using X = typename decltype(x_tag)::type;
    using Y = typename decltype(y_tag)::type;
    using A = Wider<X, Y>;
    const X* from = x.data<X>();
    Y* to = y.data<Y>();
    const A by = static_cast<A>(factor);
    for_elements(x.elements(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        put(to[i], by * static_cast<A>(static_cast<Accumulator<X>>(from[i])));
    });
  });
}

void scale_and_add_rows(Cpu, double factor, const Tensor& x, const Tensor& table, const Tensor& y) {
  require_alike("scale_and_add_rows", x, y);
  require(x.shape().dimensions() == 3 && table.shape().dimensions() == 2 &&
              x.shape()[1] == table.shape()[0] && x.shape()[2] == table.shape()[1],
          "scale_and_add_rows: x has shape {} and the table {}, wanted [outer, time, width] and "
          "[time, width]",
          x.shape().to_string(),
          table.shape().to_string());
  require(table.dtype() == x.dtype() || table.dtype() == accumulator_of(x.dtype()),
          "scale_and_add_rows: the table is {}, wanted {} or its accumulator",
          name_of(table.dtype()),
          name_of(x.dtype()));
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

namespace {

void require_blocks(const Tensor& from,
                    std::int64_t from_begin,
                    const Tensor& to,
                    std::int64_t to_begin,
                    std::int64_t count) {
  const Shape &a = from.shape(), &b = to.shape();
  require(a.dimensions() == 3 && b.dimensions() == 3 && a[0] == b[0] && a[2] == b[2] &&
              from.dtype() == to.dtype(),
          "copy_rows: found {} {} and {} {}, wanted [outer, n, width] and [outer, m, width] of one "
          "dtype",
          name_of(from.dtype()),
          a.to_string(),
          name_of(to.dtype()),
          b.to_string());
  require(count >= 0 && from_begin >= 0 && to_begin >= 0 && from_begin + count <= a[1] &&
              to_begin + count <= b[1],
          "copy_rows: rows [{}, {}) of shape {} to rows [{}, {}) of shape {} do not lie inside",
          from_begin,
          from_begin + count,
          a.to_string(),
          to_begin,
          to_begin + count,
          b.to_string());
}

}  // namespace

void copy_rows(Cpu,
               const Tensor& from,
               std::int64_t from_begin,
               const Tensor& to,
               std::int64_t to_begin,
               std::int64_t count,
               bool add) {
  require_blocks(from, from_begin, to, to_begin, count);
  const std::int64_t outer = from.shape()[0], width = from.shape()[2];
  const std::int64_t from_time = from.shape()[1], to_time = to.shape()[1];
  // Row r of the outer * count that are moved.
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
