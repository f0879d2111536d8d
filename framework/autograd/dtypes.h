// Tensors in another dtype or shape than their inputs. Private to framework/autograd.
#pragma once

#include <source_location>

#include "framework/core/dispatch.h"
#include "framework/core/tensor.h"
#include "framework/kernels/elementwise.h"

namespace longspan {

// Returns x, or a copy in another dtype on the same device. `place`: source location for profiling.
inline Tensor to_dtype(const Tensor& x,
                       DType dtype,
                       const std::source_location& place = std::source_location::current()) {
  if (x.dtype() == dtype) return x;
  const Tensor result = Tensor::empty(x.shape(), dtype, x.device());
  on(
      x.device(), [&](auto backend) { scale(backend, 1.0, x, result); }, place);
  return result;
}

// Returns an uninitialized tensor on the device of `like`, in its accumulator dtype.
inline Tensor empty_accumulator(const Tensor& like, const Shape& shape) {
  return Tensor::empty(shape, accumulator_of(like.dtype()), like.device());
}

// Returns [rows, width] with the leading axes flattened.
inline Tensor matrix(const Tensor& x) { return x.reshape({x.shape().rows(), x.shape().width()}); }

}  // namespace longspan
