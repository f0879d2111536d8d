// Reference matrix product: for f64, which oneDNN does not support, and for products with k = 0.
#pragma once

#include "framework/kernels/matmul.h"

namespace longspan {

// c = a b + bias or c += a b, without the activation. Each sum is computed in the order of its
// terms, for any number of threads.
void matmul_reference(const Matmul&, const MatmulExtents&);

}  // namespace longspan
