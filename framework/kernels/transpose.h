// Matrices with their rows and columns exchanged.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[o, j, i] = x[o, i, j]. x: [outer, rows, columns]; y: [outer, columns, rows], another tensor of
// the same floating dtype, written.
void transpose(Cpu, const Tensor& x, const Tensor& y);

}  // namespace longspan
