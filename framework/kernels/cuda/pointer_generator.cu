#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/pointer_generator.h"

namespace longspan {

void copy_probability(Cuda backend, const CopyProbability& call) { copied_mass_on(backend, call); }

void copied_mass_backward(Cuda backend, const CopiedMassGradient& call) {
  copied_mass_backward_on(backend, call);
}

void pointer_generator_losses(Cuda backend, const PointerGeneratorLosses& call) {
  copy_losses_on(backend, call);
}

void copy_losses_backward(Cuda backend, const CopyLossesGradient& call) {
  copy_losses_backward_on(backend, call);
}

void coverage_losses(Cuda backend, const CoverageLosses& call) {
  coverage_losses_on(backend, call);
}

void coverage_losses_backward(Cuda backend, const CoverageLossesGradient& call) {
  coverage_losses_backward_on(backend, call);
}

void guided_attention_losses(Cuda backend, const GuidedAttentionLosses& call) {
  guide_losses_on(backend, call);
}

void guide_losses_backward(Cuda backend, const GuideLossesGradient& call) {
  guide_losses_backward_on(backend, call);
}

}  // namespace longspan
