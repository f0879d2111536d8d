#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/gate.h"

namespace longspan {

void gate(Cuda cuda, const Gating& gating) { gate_on(cuda, gating); }
void gate_backward(Cuda cuda, const GatingGradient& gating) { gate_backward_on(cuda, gating); }

}  // namespace longspan
