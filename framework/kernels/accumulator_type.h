// The type of what kernels sum in.
#pragma once

#include "framework/core/dtype.h"
#include "framework/core/error.h"

namespace longspan {

// Calls f(TypeTag<A>{}) with the C++ type of an accumulator's dtype, f64 or f32. Throws Failure at
// any other.
template <typename F>
decltype(auto) with_accumulator_type(DType dtype, F&& f) {
  if (dtype != DType::f64 && dtype != DType::f32)
    throw Failure("sums are f32 or f64, found {}", name_of(dtype));
  return dtype == DType::f64 ? f(TypeTag<double>{}) : f(TypeTag<float>{});
}

}  // namespace longspan
