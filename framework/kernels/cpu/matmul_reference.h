// Our own matrix product: for float64, which oneDNN does not have, and for products of no terms.
#pragma once

#include "framework/kernels/matmul.h"

namespace longspan {

// c = a b + bias or c += a b, without the activation. Each sum is made in the order of its terms,
// whatever the number of threads.
void matmul_reference(const Matmul&, const MatmulExtents&);

}  // namespace longspan
