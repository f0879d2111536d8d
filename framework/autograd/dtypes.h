// Tensors in another dtype than their inputs. Private to framework/autograd.
#pragma once

#include <source_location>

#include "framework/core/tensor.h"

namespace longspan {

// Returns x, or a copy in another dtype on the same device. `place`: source location for profiling.
Tensor to_dtype(const Tensor& x,
                DType dtype,
                const std::source_location& place = std::source_location::current());

// Returns an uninitialized tensor on the device of `like`, in its accumulator dtype.
Tensor empty_accumulator(const Tensor& like, const Shape& shape);

}  // namespace longspan
