// Backend-independent clamping. The backend provides `write_elements`.
#pragma once

#include "framework/kernels/clamp.h"
#include "framework/kernels/element.h"

namespace longspan {

template <typename T>
struct Clamp {
  const T* x;
  T least;
  T most;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE T operator()(std::int64_t i) const {
    const T value = x[i];
    return value < least ? least : value > most ? most : value;
  }
};

template <typename Backend>
void clamp_on(Backend backend, const Tensor& x, double least, double most) {
  require(x.dtype() == DType::f32 || x.dtype() == DType::f64,
          "clamp: expected x f32 or f64, found {}",
          name_of(x.dtype()));
  require(least <= most, "clamp: expected an ascending range, found {} to {}", least, most);
  const auto write = [&](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    write_elements(
        backend, x.elements(), data, Clamp<T>{data, static_cast<T>(least), static_cast<T>(most)});
  };
  if (x.dtype() == DType::f64)
    write(x.data<double>());
  else
    write(x.data<float>());
}

}  // namespace longspan
