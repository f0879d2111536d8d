// The hidden layer of a gated feed-forward layer (Dauphin et al. 2017; Shazeer 2020).
#pragma once

#include "framework/kernels/activation.h"

namespace longspan {

// y = activation(before) factor, by element. All of one shape and dtype; y is written.
struct GatedHidden {
  Activation activation = Activation::silu;
  Tensor before;
  Tensor factor;
  Tensor y;
};
void gated_hidden(Cpu, const GatedHidden&);
void gated_hidden(Cuda, const GatedHidden&);

// dbefore = dy factor activation'(before), dfactor = dy activation(before). Both are written; each
// may be what it is the gradient of, or one of them dy.
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
