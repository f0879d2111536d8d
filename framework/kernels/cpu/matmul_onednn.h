// Matrix products with oneDNN.
#pragma once

#include "framework/kernels/cpu/matmul_reference.h"

namespace longspan {

// c = a b + bias or c += a b in f32, or in bf16 if the processor supports it, without the
// activation. oneDNN's fused relu turns NaN into 0. A separate activation pass over c while it is
// in the cache costs about 1% of the product.
void matmul_onednn(Cpu, const Matmul&, const MatmulExtents&);

}  // namespace longspan
