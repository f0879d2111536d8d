// What a kernel says of a tensor that is not the one it wants.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Throws Failure unless what `kernel` calls `name` has that shape and dtype.
inline void require_tensor(
    const char* kernel, const char* name, const Tensor& found, const Shape& shape, DType dtype) {
  require(found.defined() && found.shape() == shape && found.dtype() == dtype,
          "{}: {} is {} {}, wanted {} {}",
          kernel,
          name,
          found.defined() ? name_of(found.dtype()) : "nothing",
          found.defined() ? found.shape().to_string() : "",
          name_of(dtype),
          shape.to_string());
}

}  // namespace longspan
