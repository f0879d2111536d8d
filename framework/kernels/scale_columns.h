// Column scaling and element-wise products.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[r, c] = x[r, c] factors[c]. x, y: [rows, width] (leading axes flattened, width = elements of
// `factors`), same dtype. factors: that dtype or its accumulator dtype. y may alias x.
void scale_columns(Cpu, const Tensor& x, const Tensor& factors, const Tensor& y);
void scale_columns(Cuda, const Tensor& x, const Tensor& factors, const Tensor& y);

// out = a b element-wise, same dtype; out may alias a or b.
void multiply(Cpu, const Tensor& a, const Tensor& b, const Tensor& out);
void multiply(Cuda, const Tensor& a, const Tensor& b, const Tensor& out);

}  // namespace longspan
