// Matrix products: by oneDNN, and our own for f64, which oneDNN does not support, and for products
// with k = 0.
#pragma once

#include "framework/kernels/matmul.h"

namespace longspan {

// c = a b + bias or c += a b, without the activation. Each sum is computed in the order of its
// terms, for any number of threads.
void matmul_reference(const Matmul&, const MatmulExtents&);

// c = a b + bias or c += a b in f32, or in bf16 if the processor supports it, without the
// activation. oneDNN's fused relu turns NaN into 0. A separate activation pass over c while it is
// in the cache costs about 1% of the product.
void matmul_onednn(Cpu, const Matmul&, const MatmulExtents&);

}  // namespace longspan
