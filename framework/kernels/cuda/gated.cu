#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/gated.h"

namespace longspan {

void gated_hidden(Cuda cuda, const GatedHidden& hidden) { gated_hidden_on(cuda, hidden); }

void gated_hidden_backward(Cuda cuda, const GatedHiddenGradient& hidden) {
  gated_hidden_backward_on(cuda, hidden);
}

}  // namespace longspan
