// Matrix products by oneDNN.
#pragma once

#include "framework/kernels/cpu/matmul_reference.h"

namespace longspan {

// c = a b + bias or c += a b in f32, or in bf16 where the processor has it, without the activation:
// oneDNN's fused relu turns NaN into 0, and a pass of our own over c while it is in the cache costs
// a hundredth of the product.
void matmul_onednn(Cpu, const Matmul&, const MatmulExtents&);

}  // namespace longspan
