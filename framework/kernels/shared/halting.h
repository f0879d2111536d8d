// The part of halting.h that reduces rows, which the backends do differently.
#pragma once

#include "framework/kernels/halting.h"

namespace longspan {

// Writes `call.dweights`, which must be defined. Does not check the call.
void sum_weight_gradients(Cpu, const JoinRowsGradient& call);
void sum_weight_gradients(Cuda, const JoinRowsGradient& call);

}  // namespace longspan
