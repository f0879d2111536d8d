#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/tanh.h"

namespace longspan {

void tanh(Cuda cuda, const Tensor& x, const Tensor& y) { tanh_on(cuda, x, y); }

void tanh_backward(Cuda cuda, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  tanh_backward_on(cuda, y, dy, dx);
}

}  // namespace longspan
