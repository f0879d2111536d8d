// Element helpers shared by CPU and CUDA kernels.
#pragma once

#include <type_traits>

#include "framework/core/dtype.h"
#include "framework/core/error.h"
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

// Throws Failure, naming `kernel` and `name`, unless the tensor has that shape and dtype.
inline void require_tensor(
    const char* kernel, const char* name, const Tensor& found, const Shape& shape, DType dtype) {
  require(found.defined() && found.shape() == shape && found.dtype() == dtype,
          "{}: expected {} {} {}, found {} {}",
          kernel,
          name,
          name_of(dtype),
          shape.to_string(),
          found.defined() ? name_of(found.dtype()) : "nothing",
          found.defined() ? found.shape().to_string() : "");
}

// Calls f(TypeTag<A>{}), where A is the C++ type of an accumulator dtype (f64 or f32). Throws
// Failure for any other dtype.
template <typename F>
decltype(auto) with_accumulator_type(DType dtype, F&& f) {
  if (dtype != DType::f64 && dtype != DType::f32)
    throw Failure("expected f32 or f64 sums, found {}", name_of(dtype));
  return dtype == DType::f64 ? f(TypeTag<double>{}) : f(TypeTag<float>{});
}

// Returns a copy of x, of any floating dtype and device, in f64 on the host.
Tensor to_host_f64(const Tensor& x);

// Returns the elements of a tensor, or nullptr if it is undefined.
template <typename T>
T* elements_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

}  // namespace longspan
