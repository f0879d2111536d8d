#include "framework/kernels/shared/tanh.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void tanh(Cpu cpu, const Tensor& x, const Tensor& y) { tanh_on(cpu, x, y); }

void tanh_backward(Cpu cpu, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  tanh_backward_on(cpu, y, dy, dx);
}

}  // namespace longspan
