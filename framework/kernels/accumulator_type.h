// Dispatch on the dtype in which kernels accumulate.
#pragma once

#include "framework/core/dtype.h"
#include "framework/core/error.h"

namespace longspan {

// Calls f(TypeTag<A>{}), where A is the C++ type of an accumulator dtype (f64 or f32). Throws
// Failure for any other dtype.
template <typename F>
decltype(auto) with_accumulator_type(DType dtype, F&& f) {
  if (dtype != DType::f64 && dtype != DType::f32)
    throw Failure("expected f32 or f64 sums, found {}", name_of(dtype));
  return dtype == DType::f64 ? f(TypeTag<double>{}) : f(TypeTag<float>{});
}

}  // namespace longspan
