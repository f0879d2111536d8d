#include "framework/kernels/shared/gated.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void gated_hidden(Cpu cpu, const GatedHidden& hidden) { gated_hidden_on(cpu, hidden); }

void gated_hidden_backward(Cpu cpu, const GatedHiddenGradient& hidden) {
  gated_hidden_backward_on(cpu, hidden);
}

}  // namespace longspan
