#include "framework/kernels/cuda/dropout.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/dropout.h"

namespace longspan {
namespace {

// Processes groups of four of a row: reads all of a group before writing the first element.
template <bool adds, typename T>
struct DropFour {
  DropoutFunctor<T> dropped;
  std::int64_t width;
  const T* x;
  const T* base;
  T* y;

  __device__ void operator()(std::int64_t four) const {
    const std::int64_t in_row = (width + 3) / 4;
    const std::int64_t row = four / in_row, first = 4 * (four % in_row);
    Vec4<T> onto;
    if constexpr (adds) onto = read_four(base + row * width, first, width);
    Vec4<T> value = dropped(row, first, read_four(x + row * width, first, width));
    if constexpr (adds)
      for (int k = 0; k < 4; ++k) put(value.at[k], wide(onto.at[k]) + wide(value.at[k]));
    write_four(y + row * width, first, width, value);
  }
};

template <bool adds>
void drop(Cuda cuda, const Dropout& dropout, const Tensor& added = {}) {
  const Shape& shape = dropout.x.shape();
  with_floating_type(dropout.x.dtype(), [&]<typename T>(TypeTag<T>) {
    for_each_element(cuda,
                     shape.rows() * ((shape.width() + 3) / 4),
                     DropFour<adds, T>{DropoutFunctor<T>(dropout),
                                       shape.width(),
                                       dropout.x.data<T>(),
                                       adds ? added.data<T>() : nullptr,
                                       dropout.y.data<T>()});
  });
}

}  // namespace

void dropout(Cuda cuda, const Dropout& dropout) {
  check(dropout);
  drop<false>(cuda, dropout);
}

void dropout_add(Cuda cuda, const Tensor& base, const Dropout& dropout) {
  check(dropout);
  require_same_shape("dropout_add", base, dropout.y);
  drop<true>(cuda, dropout, base);
}

}  // namespace longspan
