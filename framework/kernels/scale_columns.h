// Columns times a factor each, and products by element.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[r, c] = x[r, c] factors[c]. x, y: [rows, width] (leading axes flattened, width: the elements of
// `factors`), of one dtype; factors: that dtype or its accumulator's. y may be x.
void scale_columns(Cpu, const Tensor& x, const Tensor& factors, const Tensor& y);
void scale_columns(Cuda, const Tensor& x, const Tensor& factors, const Tensor& y);

// out = a b by element, of one dtype; out may be either.
void multiply(Cpu, const Tensor& a, const Tensor& b, const Tensor& out);
void multiply(Cuda, const Tensor& a, const Tensor& b, const Tensor& out);

}  // namespace longspan
