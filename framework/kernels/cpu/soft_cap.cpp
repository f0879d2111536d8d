#include "framework/kernels/shared/soft_cap.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void soft_cap(Cpu cpu, double cap, const Tensor& x, const Tensor& y) { softcap_on(cpu, cap, x, y); }

void softcap_backward(Cpu cpu, double cap, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  softcap_backward_on(cpu, cap, x, dy, dx);
}

}  // namespace longspan
