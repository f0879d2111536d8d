#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/tanh.h"

namespace longspan {

void tanh(Cuda cuda, const Tensor& x, const Tensor& y) { hyperbolic_tangent_on(cuda, x, y); }

void hyperbolic_tangent_backward(Cuda cuda, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  hyperbolic_tangent_backward_on(cuda, y, dy, dx);
}

}  // namespace longspan
