#include "framework/kernels/element.h"

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"

namespace longspan {

void require_same_shape(const char* kernel, const Tensor& a, const Tensor& b) {
  require(a.elements() == b.elements() && a.dtype() == b.dtype(),
          "{}: expected equal numbers of elements and dtypes, found {} {} and {} {}",
          kernel,
          name_of(a.dtype()),
          a.shape().to_string(),
          name_of(b.dtype()),
          b.shape().to_string());
}

void require_as_many(const char* kernel, const Tensor& x, const Tensor& y) {
  require(x.elements() == y.elements(),
          "{}: expected equal numbers of elements, found shapes {} and {}",
          kernel,
          x.shape().to_string(),
          y.shape().to_string());
}

Tensor to_host_f64(const Tensor& x) {
  const Tensor wide = Tensor::empty(x.shape(), DType::f64, x.device(), MemoryTag::workspace);
  on(x.device(), [&](auto backend) { scale(backend, 1, x, wide); });
  return wide.to_host();
}

}  // namespace longspan
