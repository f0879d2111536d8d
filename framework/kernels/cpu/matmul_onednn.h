// Matrix products by oneDNN.
#pragma once

#include "framework/kernels/cpu/matmul_plain.h"

namespace longspan {

// The product of f32, or of bf16 where the processor has it; bias, activation and the sum into c
// are fused.
void matmul_onednn(Cpu, const Matmul&, const MatmulExtents&);

}  // namespace longspan
