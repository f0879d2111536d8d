// Shape and dtype checks of kernel arguments.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

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

}  // namespace longspan
