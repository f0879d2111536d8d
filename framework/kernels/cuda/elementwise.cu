#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// factor * x + the table row of the same time.
template <typename T, typename R>
struct ScaleAndAddRows {
  using A = Wider<T, R>;
  A factor;
  const T* x;
  const R* table;
  std::int64_t table_elements;

  __device__ A operator()(std::int64_t i) const {
    return factor * static_cast<A>(wide(x[i])) + static_cast<A>(wide(table[i % table_elements]));
  }
};

// Maps elements of `from` to elements of `to`; i counts the copied elements.
struct Moved {
  std::int64_t width, count;
  std::int64_t from_time, from_begin;
  std::int64_t to_time, to_begin;

  __device__ std::int64_t source(std::int64_t i) const { return at(i, from_time, from_begin); }
  __device__ std::int64_t target(std::int64_t i) const { return at(i, to_time, to_begin); }

 private:
  __device__ std::int64_t at(std::int64_t i, std::int64_t time, std::int64_t begin) const {
    const std::int64_t row = i / width;
    return (row / count * time + begin + row % count) * width + i % width;
  }
};

template <typename T>
struct CopyElement {
  Moved moved;
  const T* from;
  T* to;

  __device__ void operator()(std::int64_t i) const { to[moved.target(i)] = from[moved.source(i)]; }
};

template <typename T>
struct AddElement {
  Moved moved;
  const T* from;
  T* to;

  __device__ void operator()(std::int64_t i) const {
    T& sum = to[moved.target(i)];
    put(sum, wide(sum) + wide(from[moved.source(i)]));
  }
};

// Calls f with an integer type of the element's size: a copy needs no more of its dtype.
template <typename F>
void with_bits(const Tensor& x, const F& f) {
  switch (size_of(x.dtype())) {
    case 1:
      return f(TypeTag<std::uint8_t>{});
    case 2:
      return f(TypeTag<std::uint16_t>{});
    case 4:
      return f(TypeTag<std::uint32_t>{});
    default:
      return f(TypeTag<std::uint64_t>{});
  }
}

}  // namespace

void scale_and_add_rows(
    Cuda cuda, double factor, const Tensor& x, const Tensor& table, const Tensor& y) {
  check_scale_and_add_rows(x, table, y);
  with_both_types(x, table, [&]<typename T, typename R>(TypeTag<T>, TypeTag<R>) {
    write_elements(
        cuda,
        x.elements(),
        y.data<T>(),
        ScaleAndAddRows<T, R>{
            static_cast<Wider<T, R>>(factor), x.data<T>(), table.data<R>(), table.elements()});
  });
}

void copy_rows(Cuda cuda,
               const Tensor& from,
               std::int64_t from_begin,
               const Tensor& to,
               std::int64_t to_begin,
               std::int64_t count,
               bool add) {
  check_copy_rows(from, from_begin, to, to_begin, count);
  const std::int64_t width = from.shape()[2], elements = from.shape()[0] * count * width;
  const Moved moved = {.width = width,
                       .count = count,
                       .from_time = from.shape()[1],
                       .from_begin = from_begin,
                       .to_time = to.shape()[1],
                       .to_begin = to_begin};
  if (!add) {
    with_bits(from, [&]<typename T>(TypeTag<T>) {
      for_each_element(
          cuda,
          elements,
          CopyElement<T>{
              moved, reinterpret_cast<const T*>(from.bytes()), reinterpret_cast<T*>(to.bytes())});
    });
    return;
  }
  with_floating_type(from.dtype(), [&]<typename T>(TypeTag<T>) {
    for_each_element(cuda, elements, AddElement<T>{moved, from.data<T>(), to.data<T>()});
  });
}

}  // namespace longspan
