// Computing some rows of an activation only: they are taken out, and what is made of them is put
// back in their places.
#pragma once

#include "framework/autograd/variable.h"

namespace longspan {

// Some of `whole` rows. Both tensors are i64 and lie where the activation lies.
struct RowSubset {
  Tensor which;  // [n]: the places of the rows, no place twice; -1: a row of zeros beside them
  Tensor where;  // [whole]: which of the n a row is, or -1
};

// The rows of x [..., width], which has `whole` of them, as [1, n, width].
Variable gather_rows(const Variable& x, const RowSubset& rows);

// y [1, n, width] put back: of `shape`, whose last axis is y's, zeros at all other rows.
Variable scatter_rows(const Variable& y, const RowSubset& rows, const Shape& shape);

}  // namespace longspan
