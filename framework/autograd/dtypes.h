// Tensors in another dtype than their inputs. Private to framework/autograd.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// x itself, or its values in another dtype: new memory on the same device.
Tensor in_dtype(const Tensor& x, DType dtype);

// Uninitialised, on the device of `like`, in the dtype that its values are summed in.
Tensor empty_sums(const Tensor& like, const Shape& shape);

}  // namespace longspan
