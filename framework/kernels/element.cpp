#include "framework/kernels/element.h"

namespace longspan {

void require_alike(const char* kernel, const Tensor& a, const Tensor& b) {
  require(a.elements() == b.elements() && a.dtype() == b.dtype(),
          "{}: found {} {} and {} {}, wanted the same number of elements and dtype",
          kernel,
          name_of(a.dtype()),
          a.shape().to_string(),
          name_of(b.dtype()),
          b.shape().to_string());
}

void require_as_many(const char* kernel, const Tensor& x, const Tensor& y) {
  require(x.elements() == y.elements(),
          "{}: x has shape {} and y {}, wanted the same number of elements",
          kernel,
          x.shape().to_string(),
          y.shape().to_string());
}

}  // namespace longspan
