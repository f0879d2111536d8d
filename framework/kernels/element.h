// Element helpers shared by CPU and CUDA kernels.
#pragma once

#include <type_traits>

#include "framework/core/tensor.h"

namespace longspan {

// element = value, rounded. Assigns the bits and not the struct, because compilers vectorize that.
template <typename T, typename V>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline void put(T& element, V value) {
  if constexpr (std::is_same_v<T, BFloat16>)
    element.bits = BFloat16(static_cast<float>(value)).bits;
  else if constexpr (std::is_same_v<T, Float16>)
    element.value = Float16(static_cast<float>(value)).value;
  else
    element = static_cast<T>(value);
}

// Returns the element converted to its accumulator type.
template <typename T>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline Accumulator<T> wide(T element) {
  return static_cast<Accumulator<T>>(element);
}

// The wider of two accumulators.
template <typename X, typename Y>
using Wider = decltype(Accumulator<X>{} + Accumulator<Y>{});

// Throws Failure unless both tensors have the same number of elements and the same dtype.
void require_same_shape(const char* kernel, const Tensor& a, const Tensor& b);
void require_as_many(const char* kernel, const Tensor& x, const Tensor& y);

// Calls f(TypeTag<X>, TypeTag<Y>) with the element types of both tensors.
template <typename F>
void with_both_types(const Tensor& x, const Tensor& y, const F& f) {
  with_floating_type(x.dtype(), [&](auto x_tag) {
    with_floating_type(y.dtype(), [&](auto y_tag) { f(x_tag, y_tag); });
  });
}

}  // namespace longspan
