#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/soft_cap.h"

namespace longspan {

void soft_cap(Cuda cuda, double cap, const Tensor& x, const Tensor& y) {
  softcap_on(cuda, cap, x, y);
}

void softcap_backward(Cuda cuda, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  softcap_backward_on(cuda, cap, x, dy, dx);
}

}  // namespace longspan
