#include "framework/autograd/dtypes.h"

#include "framework/kernels/elementwise.h"

namespace longspan {

Tensor to_dtype(const Tensor& x, DType dtype, const std::source_location& place) {
  if (x.dtype() == dtype) return x;
  const Tensor result = Tensor::empty(x.shape(), dtype, x.device());
  on(
      x.device(), [&](auto backend) { scale(backend, 1.0, x, result); }, place);
  return result;
}

Tensor empty_accumulator(const Tensor& like, const Shape& shape) {
  return Tensor::empty(shape, accumulator_of(like.dtype()), like.device());
}

}  // namespace longspan
