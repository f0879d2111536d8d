// Products of all pairs of two rows' elements, row by row.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[r, q a + p] = x[r, p] z[r, q]. x: [rows, a]; z: [rows, c]; y: [rows, n] with n no more than a
// c, the first n of the products, written. One floating dtype; leading axes are flattened into
// rows.
struct OuterRows {
  Tensor x;
  Tensor z;
  Tensor y;
};
void outer_rows(Cpu, const OuterRows&);
void outer_rows(Cuda, const OuterRows&);

// dx and dz are written.
struct OuterRowsGradient {
  Tensor x;
  Tensor z;
  Tensor dy;
  Tensor dx;
  Tensor dz;
};
void outer_rows_backward(Cpu, const OuterRowsGradient&);
void outer_rows_backward(Cuda, const OuterRowsGradient&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const OuterRows&);
void check(const OuterRowsGradient&);

}  // namespace longspan
