// Tensors in another dtype than their inputs. Private to framework/autograd.
#pragma once

#include <source_location>

#include "framework/core/tensor.h"

namespace longspan {

// x itself, or its values in another dtype: new memory on the same device. `place`: whose
// computation it is.
Tensor to_dtype(const Tensor& x,
                DType dtype,
                const std::source_location& place = std::source_location::current());

// Uninitialised, on the device of `like`, in the dtype that its values are summed in.
Tensor empty_accumulator(const Tensor& like, const Shape& shape);

}  // namespace longspan
