// Matrices with their rows and columns exchanged.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[o, j, i] = x[o, i, j]. x: [outer, rows, columns]; y: [outer, columns, rows], another tensor of
// the same floating dtype, written.
void transpose(Cpu, const Tensor& x, const Tensor& y);
void transpose(Cuda, const Tensor& x, const Tensor& y);

// Throws Failure where the shapes or dtypes are not as said above.
void check_transpose(const Tensor& x, const Tensor& y);

}  // namespace longspan
