#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/soft_cap.h"

namespace longspan {

void soft_cap(Cuda cuda, double cap, const Tensor& x, const Tensor& y) {
  hold_below_on(cuda, cap, x, y);
}

void hold_below_backward(
    Cuda cuda, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  hold_below_backward_on(cuda, cap, x, dy, dx);
}

}  // namespace longspan
