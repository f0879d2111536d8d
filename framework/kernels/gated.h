// Hidden layer of gated feed-forward layers (Dauphin et al. 2017; Shazeer 2020).
#pragma once

#include "framework/kernels/activation.h"

namespace longspan {

// y = activation(before) * factor, element-wise. Same shape and dtype. Overwrites y.
struct GatedHidden {
  Activation activation = Activation::silu;
  Tensor before;
  Tensor factor;
  Tensor y;
};
void gated_hidden(Cpu, const GatedHidden&);
void gated_hidden(Cuda, const GatedHidden&);

// dbefore = dy * factor * activation'(before), dfactor = dy * activation(before). Overwrites both.
// Each may alias its input, and one of them may alias dy.
struct GatedHiddenGradient {
  Activation activation = Activation::silu;
  Tensor before;
  Tensor factor;
  Tensor dy;
  Tensor dbefore;
  Tensor dfactor;
};
void gated_hidden_backward(Cpu, const GatedHiddenGradient&);
void gated_hidden_backward(Cuda, const GatedHiddenGradient&);

}  // namespace longspan
