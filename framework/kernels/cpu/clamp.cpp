#include "framework/kernels/shared/clamp.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void clamp(Cpu cpu, const Tensor& x, double least, double most) { clamp_on(cpu, x, least, most); }

}  // namespace longspan
