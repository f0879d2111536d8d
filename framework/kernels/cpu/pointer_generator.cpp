#include "framework/kernels/shared/pointer_generator.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void copy_probability(Cpu backend, const CopyProbability& call) { copied_mass_on(backend, call); }

void copied_mass_backward(Cpu backend, const CopiedMassGradient& call) {
  copied_mass_backward_on(backend, call);
}

void pointer_generator_losses(Cpu backend, const PointerGeneratorLosses& call) {
  copy_losses_on(backend, call);
}

void copy_losses_backward(Cpu backend, const CopyLossesGradient& call) {
  copy_losses_backward_on(backend, call);
}

void coverage_losses(Cpu backend, const CoverageLosses& call) { coverage_losses_on(backend, call); }

void coverage_losses_backward(Cpu backend, const CoverageLossesGradient& call) {
  coverage_losses_backward_on(backend, call);
}

void guided_attention_losses(Cpu backend, const GuidedAttentionLosses& call) {
  guide_losses_on(backend, call);
}

void guide_losses_backward(Cpu backend, const GuideLossesGradient& call) {
  guide_losses_backward_on(backend, call);
}

}  // namespace longspan
