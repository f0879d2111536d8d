#include "framework/kernels/shared/gate.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void gate(Cpu cpu, const Gating& gating) { gate_on(cpu, gating); }
void gate_backward(Cpu cpu, const GatingGradient& gating) { gate_backward_on(cpu, gating); }

}  // namespace longspan
