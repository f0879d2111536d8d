// Matrix transposition.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[o, j, i] = x[o, i, j]. x: [outer, rows, columns]; y: [outer, columns, rows], same floating
// dtype, overwritten, must not alias x.
void transpose(Cpu, const Tensor& x, const Tensor& y);
void transpose(Cuda, const Tensor& x, const Tensor& y);

// Throws Failure if shapes or dtypes do not match the comments above.
void check_transpose(const Tensor& x, const Tensor& y);

}  // namespace longspan
