#include "framework/kernels/shared/activation.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void activate(Cpu cpu, Activation activation, const Tensor& x, const Tensor& y) {
  activate_on(cpu, activation, x, y);
}

void activate_backward(
    Cpu cpu, Activation activation, const Tensor& kept, const Tensor& dy, const Tensor& dx) {
  activate_backward_on(cpu, activation, kept, dy, dx);
}

}  // namespace longspan
