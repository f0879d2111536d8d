#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/activation.h"

namespace longspan {

void activate(Cuda cuda, Activation activation, const Tensor& x, const Tensor& y) {
  activate_on(cuda, activation, x, y);
}

void activate_backward(
    Cuda cuda, Activation activation, const Tensor& kept, const Tensor& dy, const Tensor& dx) {
  activate_backward_on(cuda, activation, kept, dy, dx);
}

}  // namespace longspan
