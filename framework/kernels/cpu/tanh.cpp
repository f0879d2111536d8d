#include "framework/kernels/shared/tanh.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void tanh(Cpu cpu, const Tensor& x, const Tensor& y) { hyperbolic_tangent_on(cpu, x, y); }

void hyperbolic_tangent_backward(Cpu cpu, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  hyperbolic_tangent_backward_on(cpu, y, dy, dx);
}

}  // namespace longspan
