#include "framework/kernels/transpose.h"

namespace longspan {

void check_transpose(const Tensor& x, const Tensor& y) {
  require(x.shape().dimensions() == 3 && x.dtype() == y.dtype() &&
              y.shape() == Shape({x.shape()[0], x.shape()[2], x.shape()[1]}),
          "transpose: cannot transpose {} {} into {} {}",
          name_of(x.dtype()),
          x.shape().to_string(),
          name_of(y.dtype()),
          y.shape().to_string());
}

}  // namespace longspan
